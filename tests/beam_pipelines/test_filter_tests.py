"""Test-level filters: thresholds, caps and invariants of the paper (App. B.5, Table 13)."""

import math
import random

import pytest

from beam_pipelines.stages import filter_tests, verdicts
from beam_pipelines.stages.thresholds import CORRECTNESS, OPTIMIZATION
from tests.beam_pipelines import planted

ORIGINAL, ADDED, OPTIMIZING = 0, 1, 2


def inputs(problem):
    return [test.input for test in problem.tests]


def test_a_test_on_which_more_than_a_fifth_of_correct_solutions_time_out_is_removed():
    # 4 generated tests allow one removal (25 %). Shares of timeouts: 1/5 (not above 20 %), 2/5, 0, 0.
    problem = planted.executed(["TSSSS", "TTSSS", "SSSSS", "SSSSS"], kinds=[ADDED] * 4, correct=5)
    assert inputs(filter_tests.filter_tests(problem, thresholds=CORRECTNESS)) == ["0\n", "2\n", "3\n"]


def test_an_optimization_test_goes_only_when_more_than_nine_tenths_time_out():
    rows = ["T" * 9 + "S", "T" * 10, "S" * 10, "S" * 10]
    problem = planted.executed(rows, kinds=[OPTIMIZING] * 4, correct=10)
    assert inputs(filter_tests.filter_tests(problem, thresholds=OPTIMIZATION)) == ["0\n", "2\n", "3\n"]


def test_the_cap_lets_the_worst_tests_go_first():
    # 8 generated tests: at most floor(0.25 * 8) = 2 go for timeouts although three offend.
    rows = ["TTSSS", "TTTTS", "TTTSS"] + ["SSSSS"] * 5
    problem = planted.executed(rows, kinds=[ADDED] * 8, correct=5)
    assert inputs(filter_tests.filter_tests(problem, thresholds=CORRECTNESS)) == [
        "0\n",
        "3\n",
        "4\n",
        "5\n",
        "6\n",
        "7\n",
    ]


def test_the_failure_filter_counts_crashes_and_wrong_outputs_but_no_syntax_errors():
    rows = ["WRRSS", "CCCSS", "SSSSS", "SSSSS"]
    problem = planted.executed(rows, kinds=[ADDED] * 4, correct=5)
    assert inputs(filter_tests.filter_tests(problem, thresholds=CORRECTNESS)) == ["1\n", "2\n", "3\n"]


def test_the_failure_cap_counts_what_the_timeout_filter_left():
    # 4 tests, 1 goes for timeouts; of the 3 left floor(0.3 * 3) = 0 may go for failures.
    rows = ["TTTTT", "WWWWW", "SSSSS", "SSSSS"]
    problem = planted.executed(rows, kinds=[ADDED] * 4, correct=5)
    assert inputs(filter_tests.filter_tests(problem, thresholds=CORRECTNESS)) == ["1\n", "2\n", "3\n"]


def test_original_tests_and_those_of_the_other_round_are_never_removed():
    rows = ["TTTTT", "WWWWW"] + ["TTTTT"] * 4
    problem = planted.executed(rows, kinds=[ORIGINAL, ORIGINAL] + [OPTIMIZING] * 4, correct=5)
    assert filter_tests.filter_tests(problem, thresholds=CORRECTNESS).tests == problem.tests


def test_incorrect_solutions_and_faults_do_not_count():
    rows = ["TXXXXTTT", "SSSSSTTT", "SSSSSTTT", "SSSSSTTT"]
    problem = planted.executed(rows, kinds=[ADDED] * 4, correct=5)
    left = filter_tests.filter_tests(problem, thresholds=CORRECTNESS)
    assert inputs(left) == ["1\n", "2\n", "3\n"], "one decided execution, a timeout: share 1"


def slow_filter(rows, kind_of, correct, thresholds):
    """Both filters one test at a time: as long as the cap allows, remove the single worst offender."""
    kept = list(range(len(rows)))
    steps = (
        ("T", thresholds.timeout_share, thresholds.timeout_removal_cap),
        ("WR", thresholds.failure_share, thresholds.failure_removal_cap),
    )
    for letters, threshold, cap in steps:
        candidates = [k for k in kept if kind_of[k] == thresholds.kind]
        allowed = math.floor(cap * len(candidates) + 1e-9)
        for _ in range(allowed):
            shares = {}
            for k in candidates:
                cells = [letter for letter in rows[k][:correct] if letter not in ".X"]
                if k in kept and cells and sum(c in letters for c in cells) / len(cells) > threshold:
                    shares[k] = sum(c in letters for c in cells) / len(cells)
            if not shares:
                break
            kept.remove(min(shares, key=lambda k: (-shares[k], k)))
    return kept


@pytest.mark.parametrize("thresholds", [CORRECTNESS, OPTIMIZATION], ids=lambda t: t.name)
def test_filters_agree_with_a_slow_version_and_are_monotone(thresholds):
    draw = random.Random(7)
    for _ in range(60):
        k, correct, incorrect = draw.randint(1, 12), draw.randint(1, 12), draw.randint(0, 3)
        weights = [draw.choice([6, 1]), draw.choice([1, 12]), 2, 1, 1, 1, 1]
        rows = ["".join(draw.choices("STWRCX.", weights, k=correct + incorrect)) for _ in range(k)]
        kinds = [draw.choice([ORIGINAL, thresholds.kind, thresholds.kind]) for _ in range(k)]
        problem = planted.executed(rows, kinds=kinds, correct=correct)
        left = filter_tests.filter_tests(problem, thresholds=thresholds)
        assert inputs(left) == [f"{index}\n" for index in slow_filter(rows, kinds, correct, thresholds)]
        assert (verdicts.passes_all_tests(left) >= verdicts.passes_all_tests(problem)).all(), (
            "removing tests never fails a solution"
        )
