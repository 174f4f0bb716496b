"""Votes on outputs: the problem's checker decides, and only runs that succeeded have a say."""

import pytest

from beam_pipelines.generators import voting
from beam_pipelines.sandbox_session import Runs
from sandbox.client import checker_named
from tests.beam_pipelines import planted

LINES = checker_named("lines")


def runs_of(rows, outputs):
    """Runs spelt out as in `planted.executions`; one tuple of outputs a solution."""
    return Runs(planted.executions(rows), outputs)


def test_the_list_with_the_most_supporters_wins():
    vote = voting.find_consensus([("1\n", "2\n"), ("1 \n", "2\n\n"), ("1\n", "3\n")], LINES)
    assert vote == voting.Vote(("1\n", "2\n"), (0, 1))


@pytest.mark.parametrize(
    ("checker", "outputs", "agreeing"),
    [
        ("float_1e-6", [("0.5000001\n",), ("0.500000\n",), ("0.50000012\n",), ("0.7\n",)], (0, 1, 2)),
        ("tokens", [("1  2\n",), ("1 2\n",), ("1\n2\n",)], (0, 1, 2)),
        ("code_contests", [("YES\n",), ("Yes\n",), ("NO\n",)], (0, 1)),
    ],
)
def test_outputs_that_the_problems_checker_accepts_agree(checker, outputs, agreeing):
    assert voting.find_consensus(outputs, checker_named(checker)).agreeing == agreeing


def test_the_middle_of_a_tolerance_is_expected_where_its_ends_disagree():
    vote = voting.find_consensus([("1.0\n",), ("1.09\n",), ("1.18\n",)], checker_named("float_1e-1"))
    assert vote == voting.Vote(("1.09\n",), (0, 1, 2))


def test_two_solutions_have_to_agree_on_all_outputs():
    assert voting.find_consensus([("1", "2"), ("1", "3"), ("0", "2")], LINES) is None
    assert voting.find_consensus([("1", "2")], LINES) is None
    assert voting.find_consensus([], LINES) is None


def test_agreement_on_nothing_but_empty_outputs_is_no_agreement():
    assert voting.find_consensus([("", "\n"), ("", "")], LINES) is None
    assert voting.find_consensus([("", "1"), ("", "1")], LINES) is not None


def test_a_value_that_agrees_with_nothing_is_no_vote():
    assert voting.find_consensus([("nan\n",), ("nan\n",)], checker_named("float_1e-6")) is None


def test_a_majority_is_more_than_half_of_those_that_have_a_say():
    assert voting.has_majority(["1\n", "1 \n", "2\n", None], LINES)
    assert not voting.has_majority(["1\n", "1\n", "2\n", "3\n"], LINES)
    assert voting.has_majority([None], LINES)


def test_runs_that_failed_have_no_output_however_much_they_printed():
    # Six run into the limit after the same output, four succeed: the four decide.
    runs = runs_of(["TTTTTTSSSS", "SSSSSSSSSS"], [("", "1\n")] * 6 + [("2\n", "1\n")] * 4)
    vote = voting.find_consensus(voting.successful_outputs(runs), LINES)
    assert vote == voting.Vote(("2\n", "1\n"), (6, 7, 8, 9))
    crashed = runs_of(["RRX"], [("1\n",)] * 3)
    assert voting.find_consensus(voting.successful_outputs(crashed), LINES) is None


def test_the_pool_is_judged_by_the_checker_and_failures_stay_what_they_are():
    runs = runs_of(["SSSR"], [("0.5000001\n",), ("0.5\n",), ("0.6\n",), ("0.5\n",)])
    vote = voting.Vote(("0.5\n",), (0, 1))
    assert voting.judge_pool(runs, vote, checker_named("float_1e-6")) == planted.executions(["SSWR"])


def test_stored_outputs_are_tidy_unless_the_checker_minds():
    assert voting.tidy_output("1 \r\n\n2\x0c3\u2028\n \n", LINES) == "1\n\n2\x0c3\n"
    assert voting.tidy_output("", LINES) == ""
    assert voting.tidy_output("1 \r\n", checker_named("kattis:space_change_sensitive")) == "1 \n"


def test_equal_outputs_are_not_taken_apart():
    asked = []

    def checker(expected, produced):
        asked.append((expected, produced))
        return expected.split() == produced.split()

    vote = voting.find_consensus([("1 2\n",), ("1 2 \n",), ("1 2\n",), ("3\n",)], checker)
    assert vote.agreeing == (0, 1, 2)
    assert {pair for pair in asked if "2" in "".join(pair)} == {("1 2\n", "3\n"), ("3\n", "1 2\n")}
