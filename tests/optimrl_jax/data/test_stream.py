"""The order of problems: every epoch holds each once, newly shuffled, and a stored position goes on exactly there."""

import json

from optimrl_jax.data import stream
from tests.optimrl_jax import records


def test_each_epoch_is_a_new_order_of_all_problems():
    problems = stream.problem_batches(range(5), batch=5, seed=3)
    epochs = [next(problems) for _ in range(4)]
    assert all(sorted(epoch) == list(range(5)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert next(stream.problem_batches(range(5), batch=5, seed=3)) == epochs[0]
    assert next(stream.problem_batches(range(5), batch=5, seed=4)) != epochs[0]


def test_a_stored_position_goes_on_across_the_end_of_an_epoch():
    first = stream.problem_batches(range(5), batch=3, seed=0)
    next(first)
    position = json.loads(json.dumps(first.get_state()))
    expected = [next(first) for _ in range(5)]
    second = stream.problem_batches(range(5), batch=3, seed=0)
    second.set_state(position)
    assert [next(second) for _ in range(2)] == expected[:2]
    third = stream.problem_batches(range(5), batch=3, seed=0)
    third.set_state(json.loads(json.dumps(second.get_state())))
    assert [next(third) for _ in range(3)] == expected[2:]


def test_programs_are_drawn_uniformly_within_each_problem():
    examples = stream.example_batches([records.record(name="a"), records.record(name="b")], batch=400, seed=0)
    drawn = next(examples)
    programs = [program for statement, program in drawn if statement.endswith("a.")]
    assert len(programs) == 200
    counts = [programs.count(program) for program in records.record(name="a").reference_program]
    assert min(counts) > 25


def test_batches_may_be_as_small_as_one():
    assert len(next(stream.problem_batches(range(3), batch=1, seed=0))) == 1
    assert len(next(stream.example_batches([records.record(name="a")], batch=1, seed=0))) == 1
