"""When do rewards that know the clock's noise help? Their bias and variance by simulation (App. C.12).

One program of known speed is measured again and again beside a ladder of references, and every measurement is judged
with seconds at face value and averaged over redrawn measurements (`environment.confidence`). What a program of a true
position would earn on a perfect clock is known, so that bias, deviation and the order of two programs are too.
"""

import dataclasses
import functools
import itertools
import typing
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np

from optimrl_jax import environment, rewards
from optimrl_jax.arrays import Array, Execution, Outcome, References, Status, TestKind, Tests

# Each gate stands at the reference of this index: half a place above it in ranked families, so that being ahead of it
# on most tests decides, and at the seconds that it takes where a limit decides.
GATE_REFERENCE = 6
REFERENCES = 20
THRESHOLD = (GATE_REFERENCE + 0.5) / REFERENCES
TESTS = 10
# The slowest reference takes this many times as long as the fastest.
LADDER = 4.0
# Runs of every reference when its duration was stored; the median and their deviation are kept, as pipelines do.
STORED_RUNS = 5
FAMILIES: dict[str, dict[str, typing.Any]] = {
    "qar_ranked": {"threshold": THRESHOLD},
    "qp_ranked": {"threshold": THRESHOLD},
    "absolute_timeout": {"limit": 1.0, "tolerance": 0.1},
}
KINDS = ("own", "shared")
# Ways to reward, by draws and repeats: at face value, averaged over redrawn measurements with the deviation of a single
# run, or with that of the mean of all repeats.
WAYS: dict[str, Callable[[int, int], dict[str, typing.Any]]] = {
    "plain": lambda draws, repeats: {"noise_draws": 0},
    "aware": lambda draws, repeats: {"noise_draws": draws},
    "scaled": lambda draws, repeats: {"noise_draws": draws, "noise_scale": repeats**-0.5},
}
GROUP = 16


class Clock(typing.NamedTuple):
    """How a program is measured.

    Attributes:
      noise: standard deviation of a single run, share of its duration.
      repeats: runs of a candidate on each test, whose mean is taken.
      kind: "own": every run has an error of its own; "shared": all runs of a program have one, as in a slow spell.
    """

    noise: float
    repeats: int = 1
    kind: str = "own"


class Judged(typing.NamedTuple):
    """What a program earned in `m` measurements, for `n` true gaps.

    Attributes:
      gate: `[m, n]` g, which is also the reward of a correct program under two binary gates.
      credit: `[m, n]` 1 - q, its reward under two gates with linear quality.
    """

    gate: np.ndarray
    credit: np.ndarray


@dataclasses.dataclass(frozen=True)
class Effect:
    """What one way of rewarding gives a program, and the pair of programs at +gap and -gap.

    Attributes:
      family: of the environment.
      kind: of the clock's noise.
      noise: standard deviation of a single run, share of its duration.
      repeats: runs of the candidate on each test.
      gap: how much faster than the gate the program is, natural logarithm of the ratio; negative where slower.
      signal: of one reward, "gate" or "credit".
      way: a key of `WAYS`.
      truth: what a perfect clock gives.
      bias: mean reward minus truth.
      std: standard deviation of the reward.
      rmse: of both.
      misordered: share of measurements in which the slower one of the pair earns more, ties one half.
      efficiency: (difference of means / deviation)^2 of the pair, over that of plain rewards: how many rollouts with
        plain rewards say as much as one; nan where either has no noise.
    """

    family: str
    kind: str
    noise: float
    repeats: int
    gap: float
    signal: str
    way: str
    truth: float
    bias: float
    std: float
    rmse: float
    misordered: float
    efficiency: float


class Reliability(typing.NamedTuple):
    """How well the reliability of a group of rollouts is estimated (`rewards.reliability`).

    Attributes:
      kind: of the clock's noise.
      noise: of a single run, share of its duration.
      spread: standard deviation of the logarithm of the true seconds within a group.
      estimated: mean of the estimate.
      true: share of the variance of rewards within groups that is not noise.
    """

    kind: str
    noise: float
    spread: float
    estimated: float
    true: float


def study(
    clocks: Sequence[Clock],
    *,
    gaps: Sequence[float],
    measurements: int,
    draws: int,
    seed: int,
    families: Sequence[str] = tuple(FAMILIES),
    on_point: Callable[[int], object] = lambda done: None,
) -> list[Effect]:
    """Measure bias and variance of every way of rewarding, in each family, under every clock, at every gap.

    Args:
      clocks: how programs are measured.
      gaps: positive ones; each stands for a program faster and one slower than the gate by as much.
      measurements: of every program under every clock.
      draws: of the confidence-aware ways.
      seed: of everything drawn.
      families: keys of `FAMILIES`.
      on_point: called with the number of finished (family, clock) points.

    Returns:
      An effect for each family, clock, signal, signed gap and way.
    """
    signed = np.array(sorted({side * gap for gap in gaps for side in (-1, 1)}))
    found: list[Effect] = []
    for done, (family, clock) in enumerate(itertools.product(families, clocks), start=1):
        found += _effects(family, clock, signed, measurements=measurements, draws=draws, seed=seed)
        on_point(done)
    return found


def judge_measurements(
    family: str, clock: Clock, gaps: np.ndarray, *, measurements: int, seed: int, **fields: typing.Any
) -> Judged:
    """Measure programs again and again, and judge each measurement.

    Args:
      family: a key of `FAMILIES`.
      clock: how programs are measured.
      gaps: `[n]` true gaps to the gate.
      measurements: m, of programs and stored references alike.
      seed: of everything drawn.
      **fields: of the environment, such as `noise_draws`.
    """
    draw = np.random.default_rng(seed)
    pool = _references(clock, measurements, draw, scale=_scale(family))
    execution = _candidates(clock, gaps, measurements, draw, scale=_scale(family))
    env = environment.build(family, **FAMILIES[family], **fields)
    outcome = _judge_all(env, _tests(), pool, execution)
    return Judged(np.asarray(outcome.g, float), 1 - np.asarray(outcome.q, float))


def reliability_study(
    clocks: Sequence[Clock], *, spreads: Sequence[float], groups: int, draws: int, seed: int
) -> list[Reliability]:
    """Compare the estimated reliability of groups with the true one, in `qar_ranked` with linear credit.

    Every group holds `GROUP` programs whose seconds lie around the gate with a deviation of their logarithm.

    Args:
      clocks: how programs are measured.
      spreads: deviations within a group.
      groups: to measure.
      draws: of the estimate.
      seed: of everything drawn.
    """
    found = []
    env = environment.build("qar_ranked", **FAMILIES["qar_ranked"])
    tests = _tests()
    for clock, spread in itertools.product(clocks, spreads):
        draw = np.random.default_rng(seed)
        pool = _references(clock, groups, draw, scale=_scale("qar_ranked"))
        gaps = draw.normal(0, spread, GROUP)
        measured = _candidates(clock, gaps, groups, draw, scale=_scale("qar_ranked"))
        credit = 1 - np.asarray(_judge_all(env, tests, pool, measured).q, float)
        variance = np.asarray(_credit_variance(env, tests, pool, measured, draws), float)
        everyone = np.ones(GROUP, bool)
        estimated = [rewards.reliability(*row, everyone) for row in zip(credit, variance, strict=True)]
        noise = np.mean((credit - credit.mean(axis=0)) ** 2)
        within = np.mean(credit.var(axis=1))
        true = max(0.0, 1 - float(noise / within)) if within > 0 else 1.0
        found.append(Reliability(clock.kind, clock.noise, spread, float(np.mean(estimated)), true))
    return found


def speed_ladder() -> np.ndarray:
    """Return the true seconds of the references on a test of 1 s at the gate, `[h]`, fastest first."""
    ladder = np.geomspace(1, LADDER, REFERENCES)
    return ladder / ladder[GATE_REFERENCE]


def _tests() -> Tests:
    return Tests(np.full(TESTS, TestKind.OPTIMIZATION), np.ones(TESTS, np.int32), np.ones(TESTS, bool))


@functools.partial(jax.jit, static_argnums=4)
def _credit_variance(
    env: environment.Environment, tests: Tests, pool: References, execution: Execution, draws: int
) -> Array:
    def of_group(references: References, runs: Execution) -> Array:
        def credit(noisy: References, redrawn: Execution) -> Array:
            return 1 - environment.judge(env, tests, noisy, redrawn).q

        return rewards.reward_variance(credit, references, runs, draws=draws)

    return jax.vmap(of_group)(pool, execution)


@jax.jit
def _judge_all(env: environment.Environment, tests: Tests, pool: References, execution: Execution) -> Outcome:
    return jax.vmap(lambda references, runs: environment.judge(env, tests, references, runs))(pool, execution)


def _scale(family: str) -> np.ndarray:
    """Seconds of each test at the gate, `[k]`: equal ones where a limit in seconds is the gate."""
    return np.ones(TESTS) if family == "absolute_timeout" else np.geomspace(0.05, 0.8, TESTS)


def _errors(clock: Clock, shape: tuple[int, ...], draw: np.random.Generator, *, runs: int) -> np.ndarray:
    """Draw relative errors of `runs` runs on every test, `[*shape, k, runs]`."""
    whole = (*shape, 1, 1) if clock.kind == "shared" else (*shape, TESTS, runs)
    return np.broadcast_to(draw.normal(0, clock.noise, whole), (*shape, TESTS, runs))


def _references(clock: Clock, m: int, draw: np.random.Generator, *, scale: np.ndarray) -> References:
    true_s = speed_ladder()[:, None] * scale
    runs_s = true_s[..., None] * np.maximum(0.05, 1 + _errors(clock, (m, REFERENCES), draw, runs=STORED_RUNS))
    # A spell that lasts for all runs of a program leaves no trace in their deviation.
    duration_s, std_s = np.median(runs_s, axis=-1), runs_s.std(axis=-1, ddof=1)
    by_test_s, by_test_std_s = (np.swapaxes(part, 1, 2).astype(np.float32) for part in (duration_s, std_s))
    return References(by_test_s, by_test_std_s, np.ones((m, TESTS, REFERENCES), bool))


def _candidates(clock: Clock, gaps: np.ndarray, m: int, draw: np.random.Generator, *, scale: np.ndarray) -> Execution:
    true_s = np.exp(-gaps)[:, None] * scale
    errors = _errors(clock, (m, len(gaps)), draw, runs=clock.repeats).mean(axis=-1)
    seconds = (true_s * np.maximum(0.05, 1 + errors)).astype(np.float32)
    return Execution(np.full(seconds.shape, Status.SUCCESS, np.int32), seconds)


def _effects(
    family: str, clock: Clock, gaps: np.ndarray, *, measurements: int, draws: int, seed: int
) -> Iterator[Effect]:
    perfect = judge_measurements(family, Clock(0.0), gaps, measurements=1, seed=seed)
    judged = {
        way: judge_measurements(
            family, clock, gaps, measurements=measurements, seed=seed, **fields(draws, clock.repeats)
        )
        for way, fields in WAYS.items()
    }
    for signal, place in itertools.product(Judged._fields, range(len(gaps))):
        truth = float(getattr(perfect, signal)[0, place])
        pair = [max(place, len(gaps) - 1 - place), min(place, len(gaps) - 1 - place)]
        plain = _power(getattr(judged["plain"], signal)[:, pair])
        for way, one in judged.items():
            values = getattr(one, signal)
            bias, std, power = values[:, place].mean() - truth, values[:, place].std(), _power(values[:, pair])
            efficiency = power / plain if 0 < plain < np.inf and power < np.inf else float("nan")
            rmse, order = float(np.hypot(bias, std)), _misordered(values[:, pair])
            at = (family, clock.kind, clock.noise, clock.repeats, float(gaps[place]))
            yield Effect(*at, signal, way, truth, float(bias), float(std), rmse, order, efficiency)


def _power(pair: Array) -> float:
    """Compute (difference of means)^2 over the mean variance of `[m, 2]` rewards; inf without variance."""
    variance = float(np.var(pair, axis=0).mean())
    return float(np.diff(pair.mean(axis=0))[0] ** 2) / variance if variance > 0 else float("inf")


def _misordered(pair: Array) -> float:
    """Share of `[m, 2]` rewards (faster, slower) in the wrong order; ties count half."""
    return float(np.mean((pair[:, 0] < pair[:, 1]) + 0.5 * (pair[:, 0] == pair[:, 1])))
