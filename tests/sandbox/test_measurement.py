"""The estimate of a duration from repeated runs and the probes around them."""

import dataclasses
import math
import random

import pytest

from sandbox.protocol import InvalidRequestError, RunRequest, Suite, TestResult, Verdict
from sandbox.timing import estimate, measurement
from sandbox.timing.estimate import Timing
from sandbox.timing.restlessness import SpeedHistory


def result(test: int = 0) -> TestResult:
    return TestResult(test, Verdict.SUCCESS, 9.0)


def runs(*walls_s: float, probe_s: float = 1.0) -> list[Timing]:
    return [Timing(wall_s, wall_s, probe_s, at_s=float(k)) for k, wall_s in enumerate(walls_s)]


# Two minutes at four probes a second, on a core that is always itself.
CALM = SpeedHistory().after([(k / 4, 1.0) for k in range(480)])


def estimated(timings: dict[int, list[Timing]], *, history: SpeedHistory = CALM) -> tuple[TestResult, ...]:
    return estimate.estimated([result(test) for test in timings], timings, history=history)


def test_the_smallest_run_counts():
    (found,) = estimated({0: [Timing(1.5, 1.4, 1.0), Timing(1.0, 0.9, 1.0), Timing(1.01, 1.0, 1.0)]})
    assert (found.wall_s, found.cpu_s, found.runs) == (1.0, 0.9, 3)


def test_the_deviation_is_drawn_towards_that_of_the_whole_request():
    # Spreads 0 and 0.04 (two runs, 4 % apart), and two tests that stand for the unknown.
    steady, unsteady = estimated({0: runs(2.0, 2.0), 1: runs(1.0, 1.04)})
    pooled, prior = (0.0 + 0.04 + 2 * 0.007) / 4, estimate.PRIOR_RUNS
    spreads = [prior * pooled / (prior + 1), (prior * pooled + 0.04) / (prior + 1)]
    shares = [math.hypot(estimate.FLOORS_APART * spread / 2, estimate.FLOOR_SHARE) for spread in spreads]
    assert steady.wall_std_s == pytest.approx(2.0 * shares[0], rel=3e-3)
    assert unsteady.wall_std_s == pytest.approx(shares[1], rel=3e-3)


def test_what_requests_before_it_showed_narrows_or_widens_the_interval_of_the_next():
    timings = {0: runs(1.0, 1.001), 1: runs(2.0, 2.002)}
    calm, restless = estimate.Spreads(), estimate.Spreads()
    for _ in range(20):
        calm, restless = calm.after({0: runs(1.0, 1.001)}), restless.after({0: runs(1.0, 1.05)})
    found = [
        estimate.estimated([result(0)], timings, history=CALM, past=past)[0].wall_std_s
        for past in (calm, estimate.Spreads(), restless)
    ]
    # The least that is known of a host is what stands for the unknown; on a calm one little of that is left.
    assert found == sorted(found)
    assert found[0] < 0.6 * found[1] < 0.3 * found[2]
    # However many there were, they weigh no more than PAST_TESTS: what this one shows itself is heard.
    shaken = {0: runs(1.0, 1.1), 1: runs(1.0, 1.1, 1.1, 1.1)}
    assert estimate.estimated([result(1)], shaken, history=CALM, past=calm)[0].wall_std_s > 5 * found[0]


def test_a_request_without_repeats_teaches_nothing():
    past = estimate.Spreads().after({0: runs(1.0, 1.01)})
    assert past == pytest.approx((1.0, 0.01), rel=0.01)
    assert past.after({0: runs(1.0), 1: runs(2.0)}) == past
    (single,) = estimated({0: runs(1.0)})
    assert single.wall_std_s == pytest.approx(estimate.SINGLE_SHARE, rel=1e-3)


def test_the_jitter_of_short_tests_says_little_about_long_ones():
    quiet = {k: runs(0.2, 0.2) for k in range(3)}
    mixed = quiet | {9: runs(0.001, 0.00102)}
    (alone, *_), (beside, *_) = (
        estimate.estimated([result(0)], timings, history=CALM, past=estimate.Spreads()) for timings in (quiet, mixed)
    )
    assert beside.wall_std_s < 1.25 * alone.wall_std_s


def test_intervals_hold_what_they_say_on_calm_and_on_shaken_hosts():
    """Runs above floors that differ from request to request as much as runs do above one, whatever the host's unit."""
    chance = random.Random(5)
    for spread in (0.003, 0.01, 0.04):
        past, found = estimate.Spreads(), []
        for _ in range(60):
            floors = [0.1 * (1 + chance.gauss(0, spread)) for _ in range(3)]
            walls = {
                k: [floor * (1 + chance.expovariate(1 / spread)) for _ in range(3)] for k, floor in enumerate(floors)
            }
            timings = {k: runs(*values) for k, values in walls.items()}
            (estimated_,) = estimate.estimated([result(0)], timings, history=CALM, past=past)
            past = past.after(timings)
            found.append(estimated_)
        pairs = [(a, b) for a in found[20:] for b in found[20:] if a is not b]
        covered = sum(a.interval_s[0] <= b.wall_s <= a.interval_s[1] for a, b in pairs) / len(pairs)
        assert 0.85 < covered < 0.995, (spread, covered)


def test_a_core_that_was_slow_throughout_widens_the_interval():
    slow_now = SpeedHistory().after([(k / 4, 1.6 if k > 228 else 1.0) for k in range(240)])
    (usual,) = estimated({0: runs(1.0, 1.0)})
    (slow,) = estimated({0: runs(1.0, 1.0, probe_s=1.6)}, history=slow_now)
    (unprobed,) = estimated({0: runs(1.0, 1.0, probe_s=0.0)}, history=SpeedHistory())
    # The program may have taken 1 / 1.6 s on the core as it usually is.
    assert slow.interval_s[0] < 1 / 1.6 < usual.interval_s[0] == unprobed.interval_s[0]


def test_spells_of_the_last_minute_widen_the_interval_though_this_request_met_none():
    # Slow by a third for twelve of every thirty seconds: fresh runs of two seconds meet that one time in three or so.
    spells = SpeedHistory().after([(k / 4, 1.33 if k // 4 % 30 >= 18 else 1.0) for k in range(240)])
    spells = spells.after([(60 + k / 4, 1.0) for k in range(20)])
    (calm,) = estimated({0: runs(1.0, 1.0)})
    (restless,) = estimated({0: runs(1.0, 1.0)}, history=spells)
    assert calm.interval_s[1] < 1.1
    assert restless.interval_s[1] > 1.29


def test_spells_that_repeats_outlast_widen_nothing():
    blips = SpeedHistory().after([(k / 4, 1.5 if k % 8 == 0 else 1.0) for k in range(240)])
    (calm,) = estimated({0: runs(1.0, 1.0, 1.0)})
    (found,) = estimated({0: runs(1.0, 1.0, 1.0)}, history=blips)
    assert found.wall_std_s == pytest.approx(calm.wall_std_s, rel=0.05)


def test_an_answer_says_where_the_host_did_not_allow_the_precision_asked_for():
    request = RunRequest("print(6)", "0" * 64, repeats=3, precision=0.02)
    good, bad = (TestResult(0, Verdict.SUCCESS, 1.0, wall_std_s=std_s) for std_s in (0.015, 0.025))
    short = TestResult(0, Verdict.SUCCESS, 0.0004, wall_std_s=20e-6)
    assert not estimate.misses_precision([good, short], request)
    assert estimate.misses_precision([good, bad], request)
    assert not estimate.misses_precision([bad], dataclasses.replace(request, repeats=1))


def test_the_interval_holds_another_measurement_of_the_same_spread():
    found = TestResult(0, Verdict.SUCCESS, 1.0, wall_std_s=0.01)
    assert found.interval_s == pytest.approx((1 - 0.02772, 1 + 0.02772), abs=1e-4)
    assert TestResult(0, Verdict.SUCCESS, 0.01, wall_std_s=0.1).interval_s[0] == 0.0


def test_the_estimate_scales_with_durations_and_not_with_the_unit_of_probes():
    chance = random.Random(3)
    timings = {k: [Timing(*(chance.uniform(1, 2) for _ in range(3))) for _ in range(4)] for k in range(6)}
    scaled = {k: [Timing(10 * t.wall_s, 10 * t.cpu_s, 7 * t.probe_s) for t in runs] for k, runs in timings.items()}
    history = SpeedHistory(CALM.at_s, tuple(7 * probe_s for probe_s in CALM.probe_s))
    for one, ten in zip(estimated(timings), estimated(scaled, history=history), strict=True):
        assert ten.wall_s == pytest.approx(10 * one.wall_s)
        assert ten.wall_std_s == pytest.approx(10 * one.wall_std_s, rel=1e-3)


def needy(timings: dict[int, list[Timing]], *, calm_s: float = 2.0, **decisions_s: float) -> list[int]:
    near = {int(test[1:]): (decision_s,) for test, decision_s in decisions_s.items()}
    return estimate.tests_to_repeat(timings, precision=0.02, decisions_s=near, calm_s=calm_s)


def test_runs_in_a_slow_spell_agree_about_the_spell_alone():
    timings = {0: runs(1.3, 1.3, probe_s=1.3), 1: runs(1.0, 1.0), 2: [*runs(1.3, probe_s=1.3), *runs(1.0, 1.01)]}
    assert needy(timings, calm_s=1.06) == [0]


def test_a_test_needs_runs_until_its_two_smallest_agree():
    assert needy({0: runs(1.0), 1: runs(1.0, 1.015), 2: runs(1.0, 1.5), 3: runs(1.0, 1.5, 1.01)}) == [0, 2]
    # Jitter of the kernel is no disagreement of short programs.
    assert needy({0: runs(0.001, 0.00104)}) == []


def test_near_a_decision_runs_have_to_agree_twice_as_closely_and_come_first():
    timings = {0: runs(1.0, 1.015), 1: runs(1.0, 1.015), 2: runs(1.0, 1.5)}
    assert needy(timings, t0=1.05, t1=1.07) == [0, 2]


class Machine:
    """A worker whose runs take what a list says, test by test."""

    name, history, is_layout_fixed = "machine", CALM, True
    spreads = estimate.Spreads()

    def __init__(self, walls_s: list[list[float]], outputs: str = "6" * 99) -> None:
        self._walls_s = [iter(walls) for walls in walls_s]
        self._outputs = iter(outputs)
        self.rounds: list[list[int]] = []

    def compile(self, program, *, language, files):
        return None

    def run(self, suite, tests, *, limits, probes, ahead=1, patience_s=None):
        self.rounds.append(list(tests))
        for test in tests:
            yield {
                "wall_s": next(self._walls_s[test]),
                "cpu_s": 1.0,
                "probe_s": 1.0,
                "at_s": float(len(self.rounds)),
                "killed_for": "",
                "oom_killed": False,
                "exit": 0,
                "output": next(self._outputs).encode(),
                "output_bytes": 2,
                "errors": "",
                "peak_memory_bytes": 0,
                "instructions": 1000 + len(self.rounds),
            }


def test_executions_go_where_runs_disagree_and_never_over_the_budget():
    machine = Machine([[1.0, 1.0], [1.0, 1.0], [2.0, 1.5, 1.0, 1.2, 1.4, 1.1, 1.3, 1.3, 1.3]])
    suite = Suite(inputs=("",) * 3, expected=("6\n",) * 3)
    found = measurement.measure(machine, RunRequest("print(6)", suite.sha256, repeats=3), suite)
    assert [item.runs for item in found] == [2, 2, 5]
    assert [item.wall_s for item in found] == [1.0, 1.0, 1.0]
    assert machine.rounds == [[0, 1, 2], [0, 1, 2], [2], [2], [2]]
    assert found[2].wall_std_s > found[0].wall_std_s
    assert [item.instructions for item in found] == [1001] * 3


def test_one_execution_that_fails_fails_its_test_and_all_are_counted():
    machine = Machine([[1.0, 0.001], [1.0, 1.0]], outputs="66" + "76")
    suite = Suite(inputs=("",) * 2, expected=("6\n",) * 2)
    found = measurement.measure(machine, RunRequest("print(6)", suite.sha256, repeats=2), suite)
    assert [item.verdict for item in found] == [Verdict.WRONG_OUTPUT, Verdict.SUCCESS]
    assert [item.endings for item in found] == [{"success": 1, "wrong_output": 1}, {"success": 2}]


def test_a_single_run_does_not_claim_to_be_exact():
    suite = Suite(inputs=("",), expected=("6\n",))
    (found,) = measurement.measure(Machine([[1.0]]), RunRequest("print(6)", suite.sha256), suite)
    low_s, high_s = found.interval_s
    assert low_s < 0.99 < 1.01 < high_s


def test_a_decision_near_a_test_gets_it_more_runs():
    def measured(decisions_s):
        machine = Machine([[1.0, 1.015, 1.001], [1.0, 1.015, 1.0]])
        suite = Suite(inputs=("",) * 2, expected=("6\n",) * 2)
        request = RunRequest("print(6)", suite.sha256, repeats=3, decisions_s=decisions_s)
        return [item.runs for item in measurement.measure(machine, request, suite)]

    assert measured(None) == [2, 2]
    assert measured((1.03, 5.0)) == [3, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": 0}, "precision = 0"),
        ({"decisions_s": (0.0,)}, "decisions_s"),
        ({"decisions_s": (1.0,), "tests": (0, 1)}, "one for each"),
    ],
)
def test_wrong_settings_of_the_estimate_are_named(options, message):
    with pytest.raises(InvalidRequestError, match=message):
        RunRequest("print(6)", "0" * 64, **options)
