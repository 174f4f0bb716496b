"""What each state of the service does to the journal's rollouts, simulated with draws of our own.

40 groups of four rollouts at 15, 25, 35 and 45 ms, behind 1, 2, 3 and 4 of four references; one rollout of one group
timed out, one of each of two groups met a fault. A right program earns 1 - q, a wrong one -1. States without chance are
known exactly; for the others, the mean and the deviation over many simulated replays say where the page's numbers lie.
"""

import dataclasses

import numpy as np
import pytest

from optimrl_jax.arrays import Status
from tests.optimrl_jax.analysis import planted_journal

GROUPS, ROLLOUTS, DRAWS, REPLICAS = 40, 4, 4, 60
FIELDS = ("shift", "service_std", "sign_flips", "masked_share", "update_cosine")
REFERENCES_S = np.array([0.01, 0.02, 0.03, 0.04])
LOST, LATE, NOISY_BELOW_S = Status.FAULT, Status.TIMEOUT, 0.1


@dataclasses.dataclass(frozen=True)
class State:
    """A duration d becomes d * factor * exp(sigma N) + U(low, high) + short exp(-d / 0.1 s) |N|; tests get lost."""

    factor: float = 1.0
    low_s: float = 0.0
    high_s: float = 0.0
    sigma: float = 0.0
    short_s: float = 0.0
    lost: float = 0.0
    settle: str = "recover"


STATES = {
    "healthy": State(),
    "added_5_50_ms": State(low_s=0.005, high_s=0.05),
    "slow_15": State(factor=1.15),
    "slow_50": State(factor=1.5),
    "noisy_10": State(sigma=0.1),
    "noisy_30": State(sigma=0.3),
    "noisy_short_tests": State(short_s=0.02),
    "faults_discarded": State(lost=0.005, settle="discard"),
    "faults_recovered": State(lost=0.005),
    "faults_as_timeouts": State(lost=0.005, settle="timeout"),
    "burst": State(factor=1.3, sigma=0.2, lost=0.05),
    "burst_quarantined": State(factor=1.3, sigma=0.2, lost=0.05, settle="quarantine"),
}
CERTAIN = ("healthy", "slow_15", "slow_50")


def tables(page):
    """Half as slow again, 22.5, 37.5, 52.5 and 67.5 ms are behind 2, 3, 4 and 4 references.

    Rewards of a whole group fall by 1/4, 1/4, 1/4 and 0, where the first timed out by 0, 1/4, 1/4 and 0, and where the
    third met a fault by 1/4, 1/4 and 0.
    """
    status = np.full((GROUPS, ROLLOUTS, 2), Status.SUCCESS)
    status[10, 0, 1] = LATE
    status[list(planted_journal.BURST), 2, 1] = LOST
    seconds = np.broadcast_to(0.015 + 0.01 * np.arange(ROLLOUTS), (GROUPS, ROLLOUTS))
    recorded = replayed(STATES["healthy"], status, seconds, np.random.default_rng(0), draws=1)
    # The journal says 0.5 outside the burst, which is what the second of four earns, and -1 in it.
    bursts = len(planted_journal.BURST)
    same = (GROUPS - bursts) / (GROUPS * ROLLOUTS - bursts)
    rows = []
    for number, (name, state) in enumerate(STATES.items()):
        draw = np.random.default_rng(number)
        replicas = 1 if name in CERTAIN else REPLICAS
        found = [effects(replayed(state, status, seconds, draw, draws=DRAWS), recorded) for _ in range(replicas)]
        mean, deviation = np.mean(found, axis=0), np.std(found, axis=0)
        cells = {field: pytest.approx(m, abs=5 * d + 1e-5) for field, m, d in zip(FIELDS, mean, deviation, strict=True)}
        rows.append({"run": "steps/grpo", "state": name, "groups": GROUPS} | cells | {"reproduced": same})
    slower = next(row for row in rows if row["state"] == "slow_50")
    assert slower["shift"] == -(37 * 3 / 16 + 1 / 8 + 2 / 6) / GROUPS
    return {"service_states": rows}


def replayed(state, status, seconds, draw, *, draws):
    """Rewards and validity, [draws, groups, rollouts]."""
    shape = (draws, *seconds.shape)
    moved_s = seconds * state.factor * np.exp(state.sigma * draw.standard_normal(shape))
    moved_s = moved_s + draw.uniform(state.low_s, state.high_s, shape)
    moved_s += state.short_s * np.exp(-seconds / NOISY_BELOW_S) * np.abs(draw.standard_normal(shape))
    is_lost = draw.random((*shape, 2)) < state.lost
    after = np.broadcast_to(status, is_lost.shape).copy()
    if state.settle in ("discard", "timeout"):
        after[is_lost] = LOST if state.settle == "discard" else LATE
    else:
        after[..., 1][is_lost[..., 1] & (after[..., 1] == Status.SUCCESS)] = LATE
    if state.settle == "quarantine":
        after[is_lost.mean(axis=(2, 3)) > 0.05] = LOST
    own_s = np.where(after[..., 1] == LATE, 10.0, moved_s)
    reward = 1 - (own_s[..., None] > REFERENCES_S).mean(axis=-1)
    return np.where(after[..., 0] == Status.SUCCESS, reward, -1.0), ~(after == LOST).any(axis=-1)


def effects(state, recorded):
    """Means over groups that have a valid rollout, and the cosine of all token-weighted advantages."""
    (reward, is_valid), (before, was_valid) = state, recorded
    both = is_valid & was_valid
    advantage, old_advantage = (centred(*part) for part in (state, recorded))
    of_rollouts, is_heard = np.where(both, reward, np.nan), both.any(axis=0)
    deviation = np.zeros(is_heard.shape)
    deviation[is_heard] = np.nanstd(of_rollouts[:, is_heard], axis=0)
    of_groups = [
        mean_where(reward - before, both, axis=(0, 2)),
        mean_where(deviation, is_heard, axis=1),
        mean_where(np.sign(advantage) != np.sign(old_advantage), both, axis=(0, 2)),
    ]
    old, new = (old_advantage * was_valid).ravel(), (advantage * is_valid).reshape(DRAWS, -1)
    cosines = new @ old / np.linalg.norm(old) / np.linalg.norm(new, axis=1)
    return [*np.nanmean(of_groups, axis=1), 1 - is_valid.mean(), cosines.mean()]


def mean_where(values, on, *, axis):
    count = on.sum(axis=axis)
    return np.where(count > 0, (values * on).sum(axis=axis) / np.maximum(count, 1), np.nan)


def centred(reward, is_valid):
    count = np.maximum(is_valid.sum(axis=-1, keepdims=True), 1)
    return np.round(reward - np.where(is_valid, reward, 0).sum(axis=-1, keepdims=True) / count, 6)
