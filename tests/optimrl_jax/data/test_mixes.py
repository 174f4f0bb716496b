"""Mixes: drawn by weight in an order that resumes, too long examples counted, broken lines named."""

import itertools
import json

import numpy as np
import pytest

from optimrl_jax.data import chat, mixes
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.settings import DataSettings
from tests.optimrl_jax.data import conversations

DATA = DataSettings()


def counted(messages):
    """As many tokens as the answer says, all of them the number that the question is."""
    asked, answered = int(messages[0]["content"]), int(messages[-1]["content"])
    return chat.EncodedExample(np.full(answered, asked, np.int32), np.ones(answered, np.float32))


def talk(number, length=1):
    return conversations.conversation(str(number), str(length))


def steps(paths, weights=(1.0, 3.0), *, batch=4, batch_tokens=0, longest=100, part=(0, 1), epochs=0):
    opened = mixes.open_mix(list(zip(map(str, paths), weights, strict=False)), DATA, is_chat=False)
    examples = mixes.stream_mix(opened, weights[: len(opened)], encode=counted, seed=0, part=part, epochs=epochs)
    return mixes.ExampleSteps(examples, batch=batch, batch_tokens=batch_tokens, longest=longest)


def numbers(step):
    return [int(example.tokens[0]) for example in step.examples]


@pytest.fixture(name="paths")
def _paths(tmp_path):
    low = conversations.jsonl(tmp_path / "low.jsonl", [talk(number) for number in range(5)])
    high = conversations.parquet(tmp_path / "high.parquet", [talk(number) for number in range(10, 17)])
    return low, high


def test_sources_are_drawn_by_weight_and_each_epoch_holds_every_example_once(paths):
    drawn = numbers(next(steps(paths, batch=260)))
    high = [number for number in drawn if number >= 10]
    # Five examples once and seven three times: 21 of 26.
    assert len(high) == pytest.approx(210, abs=2)
    assert sorted(high[:7]) == sorted(high[7:14]) == list(range(10, 17))
    assert high[:7] != high[7:14]


def test_an_epoch_of_a_mix_has_every_example_once_and_then_ends(paths):
    own = steps(paths, (1.0, 1.0), batch=5, epochs=1)
    taken = [numbers(next(own)) for _ in range(4)]
    assert [len(step) for step in taken] == [5, 5, 2, 0]
    assert sorted(number for step in taken for number in step) == [*range(5), *range(10, 17)]
    shares = [numbers(next(steps(paths, (1.0, 1.0), batch=12, epochs=1, part=(index, 2)))) for index in range(2)]
    assert sorted(shares[0] + shares[1]) == [*range(5), *range(10, 17)]


def test_a_stored_position_goes_on_exactly_there(paths):
    first = steps(paths)
    for _ in range(3):
        next(first)
    position = json.loads(json.dumps(first.get_state()))
    expected = [numbers(next(first)) for _ in range(4)]
    second = steps(paths)
    second.set_state(position)
    assert [numbers(next(second)) for _ in range(4)] == expected
    assert [numbers(next(steps(paths))) for _ in range(2)] == [numbers(next(steps(paths)))] * 2


def test_a_budget_of_tokens_ends_a_step_before_the_example_that_exceeds_it(tmp_path):
    lengths = [30, 10, 45, 5, 60, 25]
    path = conversations.jsonl(tmp_path / "a.jsonl", [talk(length, length) for length in lengths])
    own, whole = steps([path], batch_tokens=100), steps([path], batch=60)
    taken = [numbers(next(own)) for _ in range(8)]
    order = numbers(next(whole))
    assert [length for step in taken for length in step] == order[: sum(map(len, taken))]
    for step, following in itertools.pairwise(taken):
        assert sum(step) <= 100 < sum(step) + following[0]


def test_examples_longer_than_a_row_are_counted_and_left_out(tmp_path):
    path = conversations.jsonl(tmp_path / "a.jsonl", [talk(0, 5), talk(1, 6), talk(2, 7)])
    own = steps([path], batch=4, longest=6)
    found = [next(own) for _ in range(3)]
    assert sum(step.left_out for step in found) in (5, 6)
    assert {number for step in found for number in numbers(step)} == {0, 1}
    with pytest.raises(UserError, match=r"data.row_tokens = 4: expected room for the examples of sft.mix"):
        next(steps([path], longest=4))


def test_processes_share_a_mix_without_repeating_anything(paths):
    whole = numbers(next(steps(paths, batch=12)))
    parts = [numbers(next(steps(paths, batch=4, part=(index, 3)))) for index in range(3)]
    assert [number for trio in zip(*parts, strict=True) for number in trio] == whole


BROKEN = [
    ('{"messages": [', "line 3: "),
    ('{"text": "a"}', "line 3: expected an object with a list of messages"),
    ('{"messages": [{"role": "user", "content": "a"}]}', "line 3: expected messages that end with the assistant's"),
]


@pytest.mark.parametrize(("line", "message"), BROKEN)
def test_a_broken_line_is_named_with_its_file(line, message, tmp_path):
    path = tmp_path / "mix.jsonl"
    path.write_text(json.dumps({"messages": talk(1)}) + "\n\n" + line + "\n")
    with pytest.raises(UserError) as raised:
        next(steps([path], batch=8))
    assert str(raised.value).startswith(f"{path}, {message}")


def test_a_broken_row_is_named_with_its_file(tmp_path):
    path = conversations.parquet(tmp_path / "mix.parquet", [talk(1), talk(2), talk(3)[:1]])
    with pytest.raises(UserError, match=r"mix.parquet, row 3: expected messages that end with the assistant's"):
        next(steps([path], batch=12))


def test_files_that_cannot_serve_are_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "no.parquet").write_text("no")
    conversations.pyarrow.parquet.write_table(conversations.pyarrow.table({"text": ["a"]}), tmp_path / "text.parquet")
    wrong = [
        ("absent.jsonl", 1.0, UserError, "a file that exists"),
        ("empty.jsonl", 1.0, UserError, "at least one example"),
        ("no.parquet", 1.0, UserError, "expected a Parquet file"),
        ("text.parquet", 1.0, UserError, "expected a column messages"),
        ("a.csv", 1.0, SettingsError, "ends with .jsonl or .parquet, or DATASET:SPLIT"),
        ("empty.jsonl", 0.0, SettingsError, "a positive weight"),
    ]
    for name, weight, kind, message in wrong:
        with pytest.raises(kind, match=message):
            mixes.open_mix([(str(tmp_path / name), weight)], DATA, is_chat=False)
