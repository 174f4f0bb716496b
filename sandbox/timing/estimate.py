"""Estimates a program's seconds from repeated runs, with a standard deviation, and says which tests need more. Pure.

Disturbance only adds. On a shared host most runs lie within a percent above a floor, and the others far above it: so
the estimate is the smallest run, and two smallest runs that agree say that the floor was reached. Measured there, the
smallest of the runs that this asks for, 2.4 on average, comes back within 1 % where a single run varies by 15 %.
"""

import dataclasses
import math
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
# What requests cannot see of each other in the spread of their own runs: without and with random addresses.
FLOOR_SHARE = 0.001
RANDOM_LAYOUT_SHARE = 0.013
FLOOR_S = 20e-6
# How much farther apart the floors of requests lie than runs above one floor would tell, if they lay there by chance
# alone: measured over kinds of programs, on calm and on restless hosts, it is between 1 and 4 for most.
FLOORS_APART = 3.0
# How many runs the spread over the whole request weighs in the spread of one test, as how many tests the requests
# before it on the same worker count beside its own, as they fade, and what stands for them while little is known.
PRIOR_RUNS = 4
PAST_TESTS, FADING = 8.0, 0.9
UNKNOWN_TESTS, UNKNOWN_SHARE = 2.0, 0.007
# A test of this length counts half for others.
SHORT_S = 5e-3
# The most a test adds to the spread of others. Where no test ran twice, SINGLE_SHARE is the deviation: one run says
# nothing about its own.
MOST_SPREAD_SHARE, SINGLE_SHARE = 0.3, 0.05


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


class Spreads(NamedTuple):
    """How far runs of one test lay above their floor in the last requests of a worker; older ones count less.

    Attributes:
      tests: how many tests that ran more than once say so; short ones count for less.
      sum: the sum of their spreads, each a share of the test's seconds and weighed in the same way.
    """

    tests: float = 0.0
    sum: float = 0.0

    def after(self, timings: Mapping[int, Sequence[Timing]]) -> "Spreads":
        """Return them with one more request, of which `timings` are the successful runs by test."""
        now = spreads_of(timings)
        return Spreads(FADING * self.tests + now.tests, FADING * self.sum + now.sum) if now.tests else self

    def joined(self, request: "Spreads") -> float:
        """Return the mean spread of a request and, with a bounded weight, of those before it and of the unknown."""
        tests = self.tests + UNKNOWN_TESTS
        mean, weight = (self.sum + UNKNOWN_TESTS * UNKNOWN_SHARE) / tests, min(PAST_TESTS, tests)
        return (request.sum + weight * mean) / (request.tests + weight)


def spreads_of(timings: Mapping[int, Sequence[Timing]]) -> Spreads:
    """Sum up the spreads of one request; (0, 0) where no test ran twice.

    In tests of a few milliseconds it is the kernel's jitter that runs differ by, which tells little about longer ones.
    """
    repeated = [runs for runs in timings.values() if len(runs) > 1]
    weights = [_smallest_s(runs) / (_smallest_s(runs) + SHORT_S) for runs in repeated]
    shares = [weight * _spread_share(runs) for weight, runs in zip(weights, repeated, strict=True)]
    return Spreads(math.fsum(weights), math.fsum(shares))


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
    past: Spreads | None = None,
    floor_share: float = FLOOR_SHARE,
) -> tuple[TestResult, ...]:
    """Replace the seconds of timed tests by their estimate and its standard deviation.

    Three things make another measurement differ from this one. Few runs say little about a spread: where runs lie above
    a floor as if by chance alone, the distance of the two smallest of n is on average 1 / (n - 1) of the spread, and
    the smallest varies by 1 / n of it; each test's spread is drawn towards that of the whole request and of the ones
    before it, as if it had been seen in PRIOR_RUNS more runs. Floors differ from request to request, the more the
    farther apart runs lie above one: what differs between programs and between hosts is learned from that, and little
    is taken for granted. And the host has slow spells, which this request met or did not meet as another one may not or
    may: see `restlessness`.

    Args:
      results: one result for each test.
      timings: successful runs by test; results of other tests stay as they are.
      history: probes of the core before and during the request; empty without probes.
      past: spreads of the worker's earlier requests; None where there were none.
      floor_share: spread between floors of requests that runs of one cannot show, as a share of the seconds.

    Returns:
      Results in the same order.
    """
    request = spreads_of(timings)
    pooled = (past or Spreads()).joined(request)
    restless = _restless_share(timings, history)
    estimates = []
    for result in results:
        if result.test not in timings:
            estimates.append(result)
            continue
        runs = timings[result.test]
        smallest_s = _smallest_s(runs)
        own = _deviation_share(runs, pooled=pooled) if request.tests else SINGLE_SHARE
        share = math.hypot(floor_share, own, restless)
        estimates.append(
            dataclasses.replace(
                result,
                wall_s=smallest_s,
                cpu_s=min(run.cpu_s for run in runs),
                instructions=min((run.instructions for run in runs if run.instructions is not None), default=None),
                wall_std_s=math.hypot(FLOOR_S, smallest_s * share),
                runs=len(runs),
                endings={str(result.verdict): len(runs)},
            )
        )
    return tuple(estimates)


def _deviation_share(runs: Sequence[Timing], *, pooled: float) -> float:
    """Return how far the smallest of a test's runs would lie from that of another request, as a share of it."""
    weight = len(runs) - 1
    own = _spread_share(runs) if weight else 0.0
    return FLOORS_APART * (PRIOR_RUNS * pooled + weight * own) / (PRIOR_RUNS + weight) / len(runs)


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
    share = (len(runs) - 1) * _gap_s(runs) / max(_smallest_s(runs), AGREEMENT_S)
    return min(share, MOST_SPREAD_SHARE)
