"""Deviations know of earlier requests for the same program, and of nothing else."""

import dataclasses
import itertools
import math
import random

import pytest

from sandbox.backends import local
from sandbox.protocol import RunRequest, Suite, TestResult, Verdict
from sandbox.service import pool
from sandbox.timing import earlier, measurement
from sandbox.timing.earlier import EarlierRequests, Estimate, deviation_factor

SUITE = Suite(inputs=("1\n", "2\n"), expected=("2\n", "4\n"))
REQUEST = RunRequest("print(2 * int(input()))", SUITE.sha256, repeats=3)


def result(wall_s: float, wall_std_s: float, *, test: int = 0) -> TestResult:
    return TestResult(test, Verdict.SUCCESS, wall_s, wall_std_s=wall_std_s)


def test_pairs_as_far_apart_as_foretold_change_nothing():
    now = {0: Estimate(1.0, 0.03), 1: Estimate(2.0, 0.06)}
    then = {0: Estimate(1.0 + math.hypot(0.03, 0.04), 0.04), 1: Estimate(2.0 - math.hypot(0.06, 0.08), 0.08)}
    assert deviation_factor(now, [then]) == pytest.approx(1.0)


def test_pairs_nearer_or_farther_than_foretold_draw_the_factor_as_far_as_they_are_many():
    now, same, twice, spell = (
        {test: Estimate(wall_s, std_s) for test in range(8)}
        for wall_s, std_s in [(1.0, 0.03), (1.0, 0.04), (1.1, 0.04), (9.0, 0.04)]
    )
    # Eight pairs, beside eight as foretold.
    assert deviation_factor(now, [same]) == pytest.approx(math.sqrt(1 / 2))
    assert deviation_factor(now, [twice]) == pytest.approx(math.sqrt((1 + 4) / 2))
    # A request in a slow spell counts as no farther than four deviations, and many pairs as no more than eighty.
    assert deviation_factor(now, [spell]) == pytest.approx(math.sqrt((1 + 16) / 2))
    assert deviation_factor(now, [same] * 100) == pytest.approx(math.sqrt(8 / 88))


def test_a_program_without_a_test_that_was_measured_before_is_as_foretold():
    now = {0: Estimate(1.0, 0.03)}
    assert deviation_factor(now, []) == deviation_factor(now, [{1: Estimate(9.0, 0.1)}]) == 1.0


@pytest.mark.parametrize("foretold", [0.5, 1.0, 2.0, 2.5])
def test_intervals_hold_what_they_say_though_foretold_too_narrow_or_too_wide(foretold):
    draw, found, true_s = random.Random(7), EarlierRequests(), (0.02, 0.04, 0.08, 0.16, 0.32)
    answers = []
    for number in range(40):
        measured = [result(draw.gauss(s, 0.01 * s), foretold * 0.01 * s, test=test) for test, s in enumerate(true_s)]
        answers.append(found.informed(measured, REQUEST, at_s=float(number)))
    # What was foretold alone holds 67 to 100 of 100; the first answers know of none before them.
    hits = [
        abs(other.wall_s - one.wall_s) <= 1.96 * math.sqrt(2) * one.wall_std_s
        for left, right in itertools.permutations(answers[10:], 2)
        for one, other in zip(left, right, strict=True)
    ]
    assert 0.90 <= sum(hits) / len(hits) <= 0.99


def test_the_same_question_is_asked_by_program_language_files_and_suite_alone():
    found = EarlierRequests()
    found.informed([result(1.0, 0.1)], REQUEST, at_s=0.0)
    same = dataclasses.replace(REQUEST, seed=9, repeats=5, precision=0.1)
    assert found.informed([result(1.0, 0.1)], same, at_s=1.0)[0].wall_std_s == pytest.approx(0.1 * math.sqrt(8 / 9))
    others = [{"program": "print(1)"}, {"suite_sha256": "1" * 64}, {"files": {"a.py": ""}}, {"language": "pypy3"}]
    for changed in others:
        other = dataclasses.replace(REQUEST, **changed)
        assert found.informed([result(1.0, 0.1)], other, at_s=1.0)[0].wall_std_s == 0.1


def test_old_requests_and_tests_that_were_not_timed_say_nothing():
    found = EarlierRequests()
    failed = TestResult(0, Verdict.WRONG_OUTPUT, 0.5)
    assert found.informed([failed], REQUEST, at_s=0.0) == (failed,)
    found.informed([result(1.0, 0.1)], REQUEST, at_s=0.0)
    assert found.informed([result(1.0, 0.1)], REQUEST, at_s=earlier.KEPT_S + 1)[0].wall_std_s == 0.1


def test_what_is_kept_is_bounded_and_the_program_measured_longest_ago_goes_first():
    found = EarlierRequests(most_estimates=3)
    first, second, third = (dataclasses.replace(REQUEST, program=f"print({n})") for n in range(3))
    for number, request in enumerate([first, second, first, third]):
        found.informed([result(1.0, 0.1)], request, at_s=float(number))
    deviations = [found.informed([result(1.0, 0.1)], request, at_s=9.0)[0].wall_std_s for request in (first, second)]
    assert deviations[0] < 0.1
    assert deviations[1] == 0.1


def test_a_pool_narrows_the_deviation_of_a_program_that_it_measured_before(monkeypatch):
    monkeypatch.setattr(
        measurement,
        "finish",
        lambda *_, begun, **__: tuple(dataclasses.replace(r, wall_s=1.0, wall_std_s=0.1) for r in begun.results),
    )
    workers = pool.Pool(local.local_workers(2), measured_under={})
    try:
        workers.upload(SUITE)
        answers = [workers.submit(dataclasses.replace(REQUEST, seed=seed)).result() for seed in range(3)]
    finally:
        workers.close()
    deviations = [[r.wall_std_s for r in answer.results] for answer in answers]
    assert deviations[0] == [0.1, 0.1]
    assert deviations[1] == pytest.approx([0.1 * math.sqrt(8 / 10)] * 2)
    assert deviations[2] == pytest.approx([0.1 * math.sqrt(8 / 12)] * 2)
