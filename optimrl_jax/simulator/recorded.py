"""Rollouts that a training run kept, judged again by the trainer's own rewards on clocks of known noise.

Beside the study of single gates (`uncertainty`): programs, problems, groups and reward are those of a real run, and its
recorded seconds are taken as the truth. Every run of a program then gets a relative error of its own, and the trainer
rewards what it measured, at face value or with what it knows of the clock. Never runs a program.
"""

import dataclasses
import itertools
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import numpy as np
from jaxtyping import Float
from scipy import stats

from optimrl_jax import arrays, environment
from optimrl_jax.analysis.timing.service_states import StoredRun
from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.rollout.groups import token_weighted
from optimrl_jax.rollout.rewarder import Rewarder
from optimrl_jax.settings import Settings

Groups = Sequence[Sequence[Mapping[str, typing.Any]]]
RESAMPLES = 1000
# Stretches of the run between which the order of policies is asked for.
STRETCHES = 20
# What the deviations beside the references say: the noise of the live clock, or what the dataset's build measured.
KNOWN, STORED = "deviations of the live clock", "deviations as stored"
KNOWLEDGE = (KNOWN, STORED)
MEASURES = ("cosine", "gain", "wrong_sign", "shift", "order")
WAYS = ("plain", "redrawn", "weighed", "dropped")


class Interval(typing.NamedTuple):
    """An estimate with its bootstrap interval over problems, 95 %."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class RecordedEffect:
    """How one way of rewarding stands one clock.

    Attributes:
      knowledge: one of `KNOWLEDGE`.
      noise: standard deviation of a run, natural logarithm.
      way: one of `WAYS`.
      cosine: of the token-weighted advantages with those of the recorded seconds: with policy gradients of unit length
        and right angles, how much of an update points where it should.
      wrong_sign: share of the advantages that are not 0 on the recorded seconds and change their sign; ties count half.
      shift: mean change of a reward.
      order: Spearman's correlation of the mean rewards of stretches of the run with those of recorded seconds.
      gain: the cosine less that of the plain way, on the same measurements.
    """

    knowledge: str
    noise: float
    way: str
    cosine: Interval
    wrong_sign: Interval
    shift: Interval
    order: Interval
    gain: Interval


class RecordedStudy(typing.NamedTuple):
    """What the study of a run found.

    Attributes:
      effects: one for each knowledge, noise and way.
      first: mean reward on the recorded seconds of the first fifth of the groups, whatever clock the run was told.
      last: of the last fifth.
    """

    effects: list[RecordedEffect]
    first: Interval
    last: Interval


def study(
    groups: Groups,
    records: Sequence[ProblemRecord],
    settings: Settings,
    *,
    noises: Sequence[float],
    draws: int,
    redraws: int,
    on_point: Callable[[int], None] = lambda done: None,
) -> RecordedStudy:
    """Reward all groups on every clock in every way, and compare with the rewards of the recorded seconds.

    Args:
      groups: `g` groups of stored rollouts in the order of the run, each of one problem (`stored_groups`).
      records: the problems that they answer.
      settings: environment, reward and seed of the run; its injected noise and its knowledge of the clock are left out.
      noises: standard deviations of a run.
      draws: measurements of each rollout on each clock.
      redraws: redrawn measurements of the ways that use any.
      on_point: called with the number of points done.

    Returns:
      Effects, and how the run went on its recorded seconds.
    """
    pools = {STORED: list(records)} | {
        noise: [dataclasses.replace(r, std_s=noise * np.asarray(r.duration_s)) for r in records] for noise in noises
    }
    first_of = dict(zip(pools, itertools.count(0, len(records)), strict=False))
    every = list(itertools.chain.from_iterable(pools.values()))
    rewarders = {way: Rewarder(every, of_way) for way, of_way in _settings_of_ways(settings, redraws).items()}
    place_of = {record.id: place for place, record in enumerate(records)}
    places = [place_of[group[0]["problem"]] for group in groups]
    recorded = [[[StoredRun.of(row) for row in group]] for group in groups]
    truth = _rewards(rewarders["plain"], places, recorded)
    comparison = Comparison(groups, truth, seed=settings.seed)
    found: list[RecordedEffect] = []
    for noise in noises:
        measured = list(_measure(groups, records, places, noise=noise, draws=draws, seed=settings.seed))
        plain = _rewards(rewarders["plain"], places, measured)
        plain_cosine = comparison.cosine(comparison.updates(plain))
        for knowledge, way in itertools.product(KNOWLEDGE, WAYS):
            shifted = [first_of[noise if knowledge == KNOWN else STORED] + place for place in places]
            rewards = plain if way == "plain" else _rewards(rewarders[way], shifted, measured)
            found.append(RecordedEffect(knowledge, noise, way, **comparison.effects_of(rewards, plain_cosine)))
            on_point(len(found))
    return RecordedStudy(found, *comparison.course())


def _settings_of_ways(settings: Settings, redraws: int) -> dict[str, Settings]:
    """Build the settings of each way; a healthy service, since errors come from here."""
    calm = dataclasses.replace(settings.environment, noise_draws=0, most_noise=1.0, limit_margin=0.0, noise_scale=1.0)
    ways = {
        "plain": (calm, 0),
        "redrawn": (dataclasses.replace(calm, noise_draws=redraws), 0),
        "weighed": (calm, redraws),
        "dropped": (dataclasses.replace(calm, most_noise=0.5), 0),
    }
    return {
        way: dataclasses.replace(
            settings,
            environment=own,
            reward=dataclasses.replace(settings.reward, reliability_draws=reliability_draws),
            noise=dataclasses.replace(settings.noise, service="healthy"),
        )
        for way, (own, reliability_draws) in ways.items()
    }


def _measure(
    groups: Groups, records: Sequence[ProblemRecord], places: Sequence[int], *, noise: float, draws: int, seed: int
) -> Iterator[list[list[StoredRun]]]:
    """Measure every group `draws` times on a clock of that noise, which has drifted as it had in the run."""
    state = environment.ServiceState(scale_std=noise)
    under_state = jax.jit(environment.under_state)
    for number, (group, place) in enumerate(zip(groups, places, strict=True)):
        kind = np.asarray(records[place].test_kind, np.int32)
        tests = arrays.Tests(kind, np.zeros_like(kind), np.ones(kind.size, bool))
        stored = [StoredRun.of(row) for row in group]
        execution = arrays.Execution.stack(stored)
        keys = [arrays.stream_key(seed, "recorded clock", number, draw) for draw in range(draws)]
        served = [jax.tree.map(np.asarray, under_state(state, tests, execution, key=key)) for key in keys]
        yield [
            [run._replace(status=status, duration_s=seconds) for run, status, seconds in zip(stored, *one, strict=True)]
            for one in served
        ]


def _rewards(
    rewarder: Rewarder, places: Sequence[int], measured: Sequence[list[list[StoredRun]]]
) -> list[Float[np.ndarray, "draws r"]]:
    """Reward all measurements of all groups."""
    return [
        np.stack([rewarder(place, runs, stream=1, batch=0).reward for runs in of_group])
        for place, of_group in zip(places, measured, strict=True)
    ]


class Comparison:
    """Compares rewards of all groups with those of the recorded seconds; problems are drawn anew for intervals.

    Args:
      groups: `g` groups of stored rollouts, in the order of the run.
      truth: their rewards on the recorded seconds, `[1, r]` each.
      seed: of the bootstrap.
    """

    def __init__(self, groups: Groups, truth: Sequence[np.ndarray], *, seed: int) -> None:
        names, self._problem = np.unique([group[0]["problem"] for group in groups], return_inverse=True)
        draw = np.random.default_rng(seed)
        resampled = draw.multinomial(len(names), np.full(len(names), 1 / len(names)), RESAMPLES)
        # The first row is the sample itself.
        self._weights = np.concatenate([np.ones((1, len(names))), resampled])
        self._stretch = np.arange(len(groups)) * min(STRETCHES, len(groups)) // len(groups)
        self._tokens = [np.array([row["tokens"] for row in group], float) for group in groups]
        self._truth = truth
        self._true_updates = self.updates(truth)

    def effects_of(
        self,
        rewards: Sequence[Float[np.ndarray, "draws r"]],
        plain_cosine: Float[np.ndarray, "resamples draws"],
    ) -> dict[str, Interval]:
        """Compute the numbers of `RecordedEffect`, each a mean over draws.

        Args:
          rewards: of every group, on measurements.
          plain_cosine: `cosine` of the rewards at face value, on the same measurements.
        """
        updates = self.updates(rewards)
        cosine = self.cosine(updates)
        signs = itertools.starmap(_wrong_signs, zip(updates, self._true_updates, strict=True))
        with np.errstate(invalid="ignore", divide="ignore"):
            wrong, asked = (self._by_problem(part) for part in zip(*signs, strict=True))
            moved = self._by_problem([(own - true).sum(axis=1) for own, true in zip(rewards, self._truth, strict=True)])
            rollouts = self._by_problem([np.full(len(own), own.shape[1]) for own in rewards])
            found = {"cosine": cosine, "wrong_sign": wrong / asked, "shift": moved / rollouts}
            found["gain"] = cosine - plain_cosine
        return {name: _interval(values) for name, values in found.items()} | {"order": self._order(rewards)}

    def course(self) -> tuple[Interval, Interval]:
        """Average the rewards of the recorded seconds in the first and in the last fifth of the groups."""
        fifth = max(1, len(self._truth) // 5)
        rollouts = np.array([own.shape[1] for own in self._truth], float)
        totals = np.array([own.sum() for own in self._truth])
        means = []
        for part in (slice(None, fifth), slice(-fifth, None)):
            weights = self._weights[:, self._problem[part]]
            counted = weights @ rollouts[part]
            means.append(_interval((weights @ totals[part] / np.where(counted > 0, counted, np.nan))[:, None]))
        return means[0], means[1]

    def updates(self, rewards: Sequence[Float[np.ndarray, "draws r"]]) -> list[Float[np.ndarray, "draws r"]]:
        """Compute what each rollout of every group adds to the update of a loss over tokens."""
        pairs = zip(rewards, self._tokens, strict=True)
        return [token_weighted(own, tokens, np.ones(own.shape, bool)) for own, tokens in pairs]

    def cosine(self, updates: Sequence[Float[np.ndarray, "draws r"]]) -> Float[np.ndarray, "resamples draws"]:
        """Compare updates with those of the recorded seconds."""
        pairs = list(zip(updates, self._true_updates, strict=True))
        dot = self._by_problem([(own * true).sum(axis=1) for own, true in pairs])
        own2 = self._by_problem([(own**2).sum(axis=1) for own, _ in pairs])
        true2 = self._by_problem([(true**2).sum(axis=1) for _, true in pairs])
        with np.errstate(invalid="ignore", divide="ignore"):
            return dot / np.sqrt(own2 * true2)

    def _by_problem(self, of_group: Sequence[Float[np.ndarray, " draws"]]) -> Float[np.ndarray, "resamples draws"]:
        """Sum over groups, each counted as often as its problem was drawn."""
        return self._weights[:, self._problem] @ np.stack(of_group)

    def _order(self, rewards: Sequence[Float[np.ndarray, "draws r"]]) -> Interval:
        """Correlate the order of the stretches of the run."""
        means = [self._of_stretches(part) for part in (self._truth, rewards)]
        true, own = (stats.rankdata(part, axis=-1) for part in means)
        true, own = (part - part.mean(axis=-1, keepdims=True) for part in (true, own))
        with np.errstate(invalid="ignore", divide="ignore"):
            return _interval((true * own).sum(axis=-1) / np.sqrt((true**2).sum(axis=-1) * (own**2).sum(axis=-1)))

    def _of_stretches(self, rewards: Sequence[np.ndarray]) -> Float[np.ndarray, "resamples draws stretches"]:
        """Average the rewards of each stretch; one without a drawn problem has the mean of nothing, 0."""
        weights = self._weights[:, self._problem]
        stretches = np.eye(self._stretch.max() + 1)[self._stretch]
        totals = np.stack([own.sum(axis=1) for own in rewards])
        counts = np.array([own.shape[1] for own in rewards], float)
        summed = np.einsum("wg,gs,gd->wds", weights, stretches, totals)
        return summed / np.maximum(weights @ (stretches * counts[:, None]), 1)[:, None]


def _wrong_signs(own: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the advantages of another sign, ties as half, and those that have a sign, `[draws]` each."""
    wrong = np.where(np.sign(own) == 0, 0.5, np.sign(own) != np.sign(true)) * (true != 0)
    return wrong.sum(axis=1), np.full(len(own), (true != 0).sum())


def _interval(values: Float[np.ndarray, "resamples draws"]) -> Interval:
    """Average over draws; the first row is the estimate, the others give the 2.5th and 97.5th percentile."""
    known = np.isfinite(values)
    means = np.where(known, values, 0).sum(axis=-1) / np.where(known.any(axis=-1), known.sum(axis=-1), np.nan)
    low, high = np.nanpercentile(means[1:], [2.5, 97.5]) if np.isfinite(means[1:]).any() else (np.nan, np.nan)
    return Interval(float(means[0]), float(low), float(high))
