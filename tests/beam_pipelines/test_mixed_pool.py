"""A pool of several splits, as the training-pool controls need it (Table 23)."""

import pytest

from beam_pipelines import inspect_dataset
from optimrl_jax.data import dataset
from optimrl_jax.jobs.errors import UserError


def test_a_mixed_pool_has_the_first_problems_of_each_split(finished_dataset):
    builder = inspect_dataset.finished_dataset(finished_dataset)
    sizes = {name: info.num_examples for name, info in builder.info.splits.items() if info.num_examples}
    one, other = sorted(sizes, key=lambda name: -sizes[name])[:2]
    whole = [record.id for record in dataset.load_records(finished_dataset, one)]
    second = [record.id for record in dataset.load_records(finished_dataset, other)]
    mixed = dataset.load_records(finished_dataset, f"{one}[:2]+{other}")
    assert [record.id for record in mixed] == whole[:2] + second


def test_a_split_by_itself_and_with_a_number():
    assert dataset.split_parts("rl_train") == [("rl_train", None)]
    assert dataset.split_parts("a[:478]+b[:522]") == [("a", 478), ("b", 522)]


@pytest.mark.parametrize("split", ["a[:0]", "a[3:]", "a+", "a+a[:2]", ""])
def test_other_forms_are_refused_in_one_line(split):
    with pytest.raises(UserError, match="expected splits such as"):
        dataset.split_parts(split)
