"""Estimates a program's seconds from repeated runs, with a standard deviation, and says which tests need more. Pure.

Disturbance only adds. On a shared host most runs lie within a percent above a floor, and the others far above it: so
the estimate is the smallest run, and two smallest runs that agree say that the floor was reached. Measured there, the
smallest of the runs that this asks for, 2.4 on average, comes back within 1 % where a single run varies by 15 %.
"""

import dataclasses
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sandbox.protocol import RunRequest, TestResult, estimate_s
from sandbox.timing import restlessness

# Two runs this close agree whatever their length: the kernel's own jitter is of this size.
AGREEMENT_S = 50e-6
# A decision within this many times the asked precision is near; runs have to agree twice as closely there.
NEAR = 3.0
# No test takes more than this many times its share of the request's executions.
MOST_SHARES = 3
# Spread between floors of requests, beyond what one request can see of it: without and with random addresses.
FLOOR_SHARE = 0.007
RANDOM_LAYOUT_SHARE = 0.013
FLOOR_S = 20e-6
# How many runs the spread over the whole request weighs in the spread of one test, and the most a test adds to it;
# where no test ran twice, that most is the spread: one run says nothing about its own.
PRIOR_RUNS = 4
MOST_SPREAD_SHARE = 0.05


class Timing(NamedTuple):
    """One successful run.

    Attributes:
      wall_s: wall seconds.
      cpu_s: user plus system seconds.
      probe_s: seconds of the faster of the two probes around it; 0 without probes.
      instructions: instructions in user space; None where the host does not count them.
      at_s: when it began, on the clock of the probes.
    """

    wall_s: float
    cpu_s: float
    probe_s: float
    instructions: int | None = None
    at_s: float = 0.0


def tests_to_repeat(
    timings: Mapping[int, Sequence[Timing]],
    *,
    precision: float,
    decisions_s: Mapping[int, Collection[float]],
    calm_s: float,
) -> list[int]:
    """Return the tests whose two smallest runs do not agree yet.

    Runs on a core that was slow at the moment vouch for nothing: they agree about the spell, not about the program.

    Args:
      timings: successful runs by test, at least one run each.
      calm_s: seconds below which the probe of a run shows a core that was itself.
      precision: how closely they have to agree, as a share of the smallest; twice as closely near a decision.
      decisions_s: seconds at which something is decided, by test; tests may be missing.

    Returns:
      Tests near a decision first, then those that disagree most; a test that ran once agrees with nothing.
    """
    needs = {}
    for test, runs in timings.items():
        is_near = _is_near(runs, precision=precision, decisions_s=decisions_s.get(test, ()))
        smallest_s = max(_smallest_s(runs), AGREEMENT_S)
        gap_s = _gap_s([run for run in runs if run.probe_s <= calm_s])
        if gap_s > max((precision / 2 if is_near else precision) * smallest_s, AGREEMENT_S):
            needs[test] = (is_near, gap_s / smallest_s)
    return sorted(needs, key=needs.__getitem__, reverse=True)


def estimated(
    results: Sequence[TestResult],
    timings: Mapping[int, Sequence[Timing]],
    *,
    history: restlessness.SpeedHistory,
    floor_share: float = FLOOR_SHARE,
) -> tuple[TestResult, ...]:
    """Replace the seconds of timed tests by their estimate and its standard deviation.

    Three things make another measurement differ from this one. Few runs say little about a spread: where runs lie above
    a floor as if by chance alone, the distance of the two smallest of n is on average 1 / (n - 1) of the spread, and
    the smallest varies by 1 / n of it; each test's spread is drawn towards that of the whole request, as if it had been
    seen in PRIOR_RUNS more runs. Floors differ from request to request. And the host has slow spells, which this
    request met or did not meet as another one may not or may: see `restlessness`.

    Args:
      results: one result for each test.
      timings: successful runs by test; results of other tests stay as they are.
      history: probes of the core before and during the request; empty without probes.
      floor_share: spread between floors of requests, as a share of the seconds.

    Returns:
      Results in the same order.
    """
    spreads = {test: _spread_share(runs) for test, runs in timings.items() if len(runs) > 1}
    pooled = MOST_SPREAD_SHARE
    if spreads:
        pooled = statistics.fmean(min(spread, MOST_SPREAD_SHARE) for spread in spreads.values())
    restless = _restless_share(timings, history)
    estimates = []
    for result in results:
        if result.test not in timings:
            estimates.append(result)
            continue
        runs = timings[result.test]
        smallest_s = _smallest_s(runs)
        weight = len(runs) - 1
        spread = (PRIOR_RUNS * pooled + weight * spreads.get(result.test, 0.0)) / (PRIOR_RUNS + weight)
        shares = (floor_share, spread / len(runs), restless)
        estimates.append(
            dataclasses.replace(
                result,
                wall_s=smallest_s,
                cpu_s=min(run.cpu_s for run in runs),
                instructions=min((run.instructions for run in runs if run.instructions is not None), default=None),
                wall_std_s=math.hypot(FLOOR_S, smallest_s * math.hypot(*shares)),
                runs=len(runs),
                endings={str(result.verdict): len(runs)},
            )
        )
    return tuple(estimates)


def _restless_share(timings: Mapping[int, Sequence[Timing]], history: restlessness.SpeedHistory) -> float:
    """Return what the host's spells add to the deviation of each test of a request; 0 for one without probes."""
    runs = [run for runs in timings.values() for run in runs if run.probe_s > 0]
    if not runs:
        return 0.0
    span_s = max(run.at_s + run.wall_s for run in runs) - min(run.at_s for run in runs)
    return restlessness.restless_share(history, span_s=span_s)


def misses_precision(results: Sequence[TestResult], request: RunRequest) -> bool:
    """Tell whether the host did not allow the precision that a request asked for, on any of its timed tests.

    False for a request without repeats, which asks for none.
    """
    return request.repeats > 1 and any(
        result.wall_std_s > max(request.precision * result.wall_s, AGREEMENT_S) for result in results
    )


def _is_near(runs: Sequence[Timing], *, precision: float, decisions_s: Collection[float]) -> bool:
    smallest_s = _smallest_s(runs)
    return any(abs(decision_s - smallest_s) <= NEAR * precision * smallest_s for decision_s in decisions_s)


def _smallest_s(runs: Sequence[Timing]) -> float:
    return estimate_s(run.wall_s for run in runs)


def _gap_s(runs: Sequence[Timing]) -> float:
    """Measure the distance of the two smallest; infinite for a single run, which agrees with nothing."""
    walls = sorted(run.wall_s for run in runs)
    return walls[1] - walls[0] if len(walls) > 1 else math.inf


def _spread_share(runs: Sequence[Timing]) -> float:
    return (len(runs) - 1) * _gap_s(runs) / max(_smallest_s(runs), AGREEMENT_S)
