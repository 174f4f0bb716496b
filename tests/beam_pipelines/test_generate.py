"""Votes, candidate inputs and the wrapper around generators."""

import json

import pytest

from beam_pipelines.generators import harness
from beam_pipelines.records import Generator
from beam_pipelines.sandbox_session import Runs
from beam_pipelines.stages import generate
from tests.beam_pipelines import planted


def test_the_largest_group_of_equal_output_lists_wins():
    outputs = [["1\n", "2\n"], ["1 \n", "2\n\n"], ["1\n", "3\n"]]
    vote = generate.consensus([[generate.normalize_output(text) for text in row] for row in outputs])
    assert vote == generate.Vote(("1\n", "2\n"), (0, 1))


def test_normalized_outputs_are_lines_ended_by_a_newline():
    assert generate.normalize_output("1 \r\n\n2\x0c3\u2028\n \n") == "1\n\n2\x0c3\n"
    assert generate.normalize_output("") == ""
    assert generate.normalize_output(None) is None


def test_two_solutions_have_to_agree_on_all_outputs():
    assert generate.consensus([["1", "2"], ["1", "3"], ["0", "2"]]) is None
    assert generate.consensus([["1", "2"]]) is None
    assert generate.consensus([]) is None


def test_a_solution_without_one_of_the_outputs_has_no_vote():
    assert generate.consensus([["1", None], ["1", None]]) is None
    assert generate.consensus([["1", None], ["1", "2"], ["1", "2"]]).agreeing == (1, 2)


def test_agreement_on_nothing_but_empty_outputs_is_no_agreement():
    assert generate.consensus([["", ""], ["", ""]]) is None
    assert generate.consensus([["", "1"], ["", "1"]]) is not None


def test_a_success_that_differs_from_the_vote_is_a_wrong_output():
    runs = Runs(planted.executions(["SS", "SS", "TR"]), (("1\n", "2\n", None), ("1\n", "9\n", None)))
    assert generate.judge_pool(runs, generate.Vote(("1\n", "2\n", "3\n"), (0,))) == planted.executions(
        ["SS", "SW", "TR"]
    )


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
