"""The split: exact ratio, strata, duplicates together, stable under additions."""

from collections import Counter

import pytest

from beam_pipelines.dmc_optim.splits import (
    NON_FILTERABLE,
    RL_TEST,
    RL_TRAIN,
    SplitCandidate,
    assign_splits,
    largest_remainder,
    training_pools,
)


def members(count, *, categories=("a", "b", "c")):
    return [SplitCandidate(f"p{n}", categories[n % len(categories)]) for n in range(count)]


def test_the_papers_pool_splits_into_1000_and_302():
    splits = assign_splits(members(1302), test_share=302 / 1302, seed=0)
    assert Counter(splits.values()) == {RL_TRAIN: 1000, RL_TEST: 302}


def test_every_category_gets_its_share():
    pool = [SplitCandidate(f"a{n}", "a") for n in range(40)] + [SplitCandidate(f"b{n}", "b") for n in range(20)]
    splits = assign_splits(pool, test_share=0.25, seed=3)
    assert Counter(name[0] for name, split in splits.items() if split == RL_TEST) == {"a": 10, "b": 5}


def test_the_split_depends_on_the_seed_and_not_on_the_order():
    pool = members(90)
    first = assign_splits(pool, test_share=0.3, seed=1)
    assert assign_splits(pool[::-1], test_share=0.3, seed=1) == first
    assert assign_splits(pool, test_share=0.3, seed=2) != first


def test_duplicates_stay_together():
    pool = [SplitCandidate(f"p{n}", "a", group=f"g{n // 3}") for n in range(60)]
    splits = assign_splits(pool, test_share=0.25, seed=5)
    for first in range(0, 60, 3):
        assert len({splits[f"p{n}"] for n in range(first, first + 3)}) == 1
    assert Counter(splits.values())[RL_TEST] == 15


def test_other_problems_never_change_the_order_inside_a_category():
    alone = assign_splits([SplitCandidate(f"a{n}", "a") for n in range(20)], test_share=0.3, seed=0)
    more = [SplitCandidate(f"b{n}", "b") for n in range(20)]
    together = assign_splits([SplitCandidate(f"a{n}", "a") for n in range(20)] + more, test_share=0.3, seed=0)
    assert {name: together[name] for name in alone} == alone


@pytest.mark.parametrize("total", range(12))
def test_largest_remainders_add_up_and_stay_within_one_of_their_share(total):
    sizes = {"a": 5, "b": 3, "c": 3}
    quotas = largest_remainder(sizes, total=total)
    assert sum(quotas.values()) == total
    for name, size in sizes.items():
        assert abs(quotas[name] - total * size / 11) < 1


def test_no_problem_at_all_is_no_split():
    assert assign_splits([], test_share=0.3, seed=0) == {}


def test_training_pools_have_one_size_and_the_mixture_the_proportion_of_the_corpus():
    made = {f"t{n}": RL_TRAIN for n in range(20)} | {f"e{n}": RL_TEST for n in range(5)}
    made |= {f"n{n}": NON_FILTERABLE for n in range(25)}
    pools = training_pools(made, size=10, seed=0)
    assert {name: len(ids) for name, ids in pools.items()} == dict.fromkeys(pools, 10)
    assert sum(name.startswith("t") for name in pools["pool_mixed"]) == 5
    assert all(name.startswith("t") for name in pools["pool_filterable"])
    assert all(name.startswith("n") for name in pools["pool_non_filterable"])
    assert not any(name.startswith("e") for ids in pools.values() for name in ids), "rl_test is never trained on"
    assert len(training_pools(made, size=100, seed=0)["pool_mixed"]) == 20
