"""Votes, candidate inputs and the wrapper around generators."""

import json

import pytest

from beam_pipelines.generators import harness
from beam_pipelines.records import Generator
from beam_pipelines.stages import generate
from tests.beam_pipelines import planted


def test_inputs_that_the_suite_has_already_are_not_added_again():
    problem = planted.problem(tests=(planted.original("1\n", "1\n"),))
    assert generate.new_inputs(problem, ("1\n", "2\n", "2\n", "3\n")) == ["2\n", "3\n"]


def test_the_verification_pool_is_drawn_by_the_seed_from_the_correct_solutions():
    problem = planted.problem()
    pools = {tuple(generate.verification_pool(problem, 3, seed=seed)) for seed in range(20)}
    assert len(pools) > 1
    assert all(len(pool) == 3 and max(pool) < 6 for pool in pools)
    assert generate.verification_pool(problem, 10, seed=0) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("no json", "generator_output_is_not_json"),
        (None, "generator_output_is_not_json"),
        ("[1, 2]", "generator_returned_no_text"),
        ('["1"]', "generator_returned_too_few_inputs"),
        (json.dumps(["1", "x" * (harness.MAX_INPUT_CHARACTERS + 1)]), "generated_input_too_large"),
        ("[" * 200_000, "generator_output_is_not_json"),
        (r'["1", "\ud800x"]', "generator_returned_no_unicode"),
    ],
)
def test_what_a_generator_printed_is_turned_down_with_a_reason(output, reason):
    assert harness.parse_inputs(output, expected=2) == reason


def test_inputs_end_with_a_newline():
    assert harness.parse_inputs('["1", "2\\n"]', expected=2) == ("1\n", "2\n")


def test_the_wrapper_quotes_whatever_the_generator_contains():
    hostile = Generator("g", "x = '''{calls}'''\n\"\"\"{seed}\"\"\"\n")
    wrapped = harness.wrapper_program(hostile, ("generate_edge_cases",), calls=1, seed=2)
    assert compile(wrapped, "wrapper", "exec") is not None
    assert repr(hostile.program) in wrapped
