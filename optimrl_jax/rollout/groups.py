"""Edge: groups of rollouts: what they hold, the bounded queue between actor and learner, and what they are worth.

The queue hands out the oldest group first, applies back-pressure and replays nothing (sec. 5, "Can GRPO be stable
enough"): a group leaves it once. Its contents are arrays that a checkpoint can hold. What carries no signal is dropped
in the paper's order (App. F, Figure 45): freshness filter, advantages, and counts of both; `grpo.rows` packs the rest.
"""

import functools
import queue
import typing
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from optimrl_jax.arrays import Array, Rollouts


class Group(typing.NamedTuple):
    """The G rollouts of one prompt and what the environment said of each.

    Attributes:
      rollouts: `[r, t]` tokens of prompt and completion, with their log-probabilities and policy versions.
      reward: `[r]` returns.
      is_valid: `[r]`, False where a fault left nothing to judge.
      is_correct: `[r]` strict correctness; for the report only.
      is_fast: `[r]` correctness within every gate; for the report only.
      is_cut: `[r]` the completion filled its room without ending; for the report only.
      problem: index of the problem in its split.
      batch: number of the batch that was sampled.
      place: place of the problem in that batch; (`batch`, `place`) occurs once in a run.
    """

    rollouts: Rollouts
    reward: Float[Array, " r"]
    is_valid: Bool[Array, " r"]
    is_correct: Bool[Array, " r"]
    is_fast: Bool[Array, " r"]
    is_cut: Bool[Array, " r"]
    problem: Int[np.ndarray | np.integer, ""]
    batch: Int[np.ndarray | np.integer, ""] = np.int32(0)
    place: Int[np.ndarray | np.integer, ""] = np.int32(0)

    @property
    def id(self) -> tuple[int, int]:
        """(`batch`, `place`): which piece of work the group answers, unique in a run."""
        return int(self.batch), int(self.place)


class QueueTimeoutError(RuntimeError):
    """The other end of the queue did not act in time: it made no room, or it delivered no group."""


class RolloutQueue:
    """A first-in, first-out queue of groups; its two ends may be used by different threads.

    Args:
      capacity: most groups that wait at a time; 0 for no bound.
    """

    def __init__(self, capacity: int) -> None:
        self._queue: queue.Queue[Group] = queue.Queue(capacity)

    def __len__(self) -> int:
        return self._queue.qsize()

    def put(self, group: Group, *, timeout_s: float) -> None:
        """Append a group, waiting for room if the queue is full.

        Args:
          group: the group to append.
          timeout_s: longest wait in seconds; 0 does not wait.

        Raises:
          QueueTimeoutError: if there is still no room after `timeout_s`.
        """
        try:
            self._queue.put(group, timeout=timeout_s)
        except queue.Full:
            raise QueueTimeoutError(f"the learner took nothing from the full queue for {timeout_s} s") from None

    def take(self, *, timeout_s: float) -> Group:
        """Remove and return the oldest group.

        Args:
          timeout_s: longest wait in seconds for a group to arrive; 0 does not wait.

        Raises:
          QueueTimeoutError: if the queue is still empty after `timeout_s`.
        """
        try:
            return self._queue.get(timeout=timeout_s)
        except queue.Empty:
            raise QueueTimeoutError(f"the actor put nothing into the empty queue for {timeout_s} s") from None

    def give_back(self, group: Group) -> None:
        """Put a group that was taken back at the head, whether or not there is room."""
        with self._queue.mutex:
            self._queue.queue.appendleft(group)

    def contents(self) -> dict[str, np.ndarray] | None:
        """Copy out all waiting groups for a checkpoint, leaving them in the queue.

        Returns:
          Named arrays with a leading group axis, oldest first, as `stack_groups` makes them; None if the queue is
          empty.
        """
        with self._queue.mutex:
            waiting = list(self._queue.queue)
        return stack_groups(waiting) if waiting else None

    def restore(self, contents: dict[str, np.ndarray] | None) -> None:
        """Append the groups that `contents` returned, in their order; None appends nothing.

        Raises:
          queue.Full: if they exceed the capacity.
        """
        for group in unstack_groups(contents) if contents is not None else ():
            self._queue.put_nowait(group)


def stack_groups(groups: Sequence[Group]) -> dict[str, np.ndarray]:
    """Stack groups into named arrays with a leading group axis, for checkpoints and messages.

    Args:
      groups: at least one; all with rollouts of one shape `[r, t]`.

    Returns:
      One array for each field of `Group` and `Rollouts` (`rollouts` itself is flattened), `[group, ...]`.
    """
    flat = [{**group._asdict(), **group.rollouts._asdict()} for group in groups]
    return {name: np.stack([group[name] for group in flat]) for name in flat[0] if name != "rollouts"}


def unstack_groups(contents: Mapping[str, np.ndarray]) -> list[Group]:
    """Rebuild the groups that `stack_groups` flattened, in the same order."""
    groups = []
    for index in range(len(contents["problem"])):
        fields = {name: np.asarray(values[index]) for name, values in contents.items()}
        rollouts = Rollouts(**{name: fields.pop(name) for name in Rollouts._fields})
        groups.append(Group(rollouts=rollouts, **fields))
    return groups


def select_groups(contents: Mapping[str, np.ndarray] | None, rows: np.ndarray) -> dict[str, np.ndarray] | None:
    """Select some of the groups that `stack_groups` stacked.

    Args:
      contents: named arrays with a leading group axis, or None for no groups.
      rows: indices into that axis; the result has their order.

    Returns:
      The same named arrays for the selected groups alone; None where nothing is selected.
    """
    if contents is None or not len(rows):
        return None
    return {name: np.asarray(values)[rows] for name, values in contents.items()}


def concatenate_groups(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray] | None:
    """Concatenate the stacked groups of several queues, skipping empty ones; return None where all are empty."""
    filled = [part for part in parts if part]
    return {name: np.concatenate([part[name] for part in filled]) for name in filled[0]} if filled else None


Kept = list[tuple[Group, np.ndarray]]


@functools.partial(jax.jit, static_argnames="scale")
def advantages(
    reward: Float[Array, "*b r"],
    lengths: Int[Array, "*b r"],
    is_valid: Bool[Array, "*b r"],
    *,
    scale: str = "none",
) -> Float[Array, "*b r"]:
    """Centre returns on the token-weighted mean of their prompt (App. F, Eq. 37).

    A_i = R_i - sum_j(L_j R_j) / sum_j(L_j) over the valid rollouts of a prompt. The paper does not divide by a standard
    deviation (sec. 5, "Can GRPO be stable enough"); `scale` does, for comparison. Constant rewards give exactly 0 in
    every dtype: rewards are first centred on the smallest valid one, which leaves nothing to round.

    Args:
      reward: `[*b, r]` returns; one that is not finite is not valid.
      lengths: `[*b, r]` sampled tokens of each rollout.
      is_valid: `[*b, r]` False where a fault left nothing to judge.
      scale: "none", or "std": each prompt's advantages are divided by the standard deviation of its valid returns.

    Returns:
      `[*b, r]` advantages; 0 for rollouts that are not valid, and for all of a prompt with fewer than two valid ones.
    """
    is_valid = is_valid & jnp.isfinite(reward)
    lowest = jnp.min(jnp.where(is_valid, reward, jnp.inf), axis=-1, keepdims=True)
    above = jnp.where(is_valid, reward - lowest, 0)
    weight = jnp.where(is_valid, lengths, 0).astype(reward.dtype)
    total = jnp.sum(weight, axis=-1, keepdims=True)
    mean = jnp.sum(weight * above, axis=-1, keepdims=True) / jnp.maximum(total, 1)
    has_pair = jnp.sum(is_valid, axis=-1, keepdims=True) >= 2
    centred = jnp.where(is_valid & has_pair, above - mean, 0)
    if scale == "none":
        return centred
    deviation = jnp.std(above, axis=-1, keepdims=True, where=is_valid)
    return jnp.where(deviation > 0, centred / jnp.where(deviation > 0, deviation, 1), 0)


def token_weighted(
    reward: Float[Array, "*b r"], tokens: Int[Array, "*#b r"], is_valid: Bool[Array, "*b r"]
) -> Float[np.ndarray, "*b r"]:
    """Compute advantages times tokens: what each rollout adds to the update of a loss over tokens.

    Args:
      reward, is_valid: as for `advantages`.
      tokens: sampled tokens of each rollout.
    """
    return np.asarray(tokens * advantages(reward, tokens, is_valid), float)


def select_informative(
    groups: Sequence[Group], *, step: int, max_staleness: int, scale: str = "none"
) -> tuple[Kept, dict[str, float]]:
    """Keep the groups that carry a training signal, each with its advantages, and count the others.

    A group is dropped, for the first reason that applies, as stale if its oldest rollout was sampled more than
    `max_staleness` optimizer steps ago, as invalid if it has fewer than two valid rollouts, and as zero-advantage if
    all its advantages are 0.

    Args:
      groups: the groups of one step; may be empty.
      step: optimizer steps taken so far.
      max_staleness: most optimizer steps between sampling and learning.
      scale: of `advantages`.

    Returns:
      The kept (group, advantages `[r]`) pairs in order, and "stale_share", "invalid_share" and "zero_advantage_share"
      of all groups, in [0, 1].
    """
    kept: Kept = []
    dropped = {"stale": 0, "invalid": 0, "zero_advantage": 0}
    for group in groups:
        lengths = group.rollouts.is_completion.sum(axis=1)
        group_advantages = np.asarray(advantages(group.reward, lengths, group.is_valid, scale=scale))
        if staleness(group, step=step) > max_staleness:
            dropped["stale"] += 1
        elif group.is_valid.sum() < 2:
            dropped["invalid"] += 1
        elif not group_advantages.any():
            dropped["zero_advantage"] += 1
        else:
            kept.append((group, group_advantages))
    return kept, {f"{name}_share": count / max(1, len(groups)) for name, count in dropped.items()}


def staleness(group: Group, *, step: int) -> int:
    """Count the optimizer steps since the oldest policy that sampled any rollout of the group."""
    return step - int(group.rollouts.policy_version.min())


def prompt_length(rollouts: Rollouts) -> int:
    """Count the tokens of the prompt that the rollouts of a group share.

    Raises:
      ValueError: if the rollouts have different prompts.
    """
    length = int(np.argmax(rollouts.is_completion.any(axis=0)))
    prompts = rollouts.tokens[:, :length]
    if (prompts != prompts[0]).any():
        raise ValueError("rollouts of one group with different prompts: expected one prompt")
    return length


def group_metrics(groups: Sequence[Group], *, step: int) -> dict[str, float]:
    """Summarize the rollouts of a step for the metrics.

    Args:
      groups: at least one.
      step: optimizer steps taken so far.

    Returns:
      "reward", "correct_share" and "fast_share" over the valid rollouts (0 where there are none); "reward_std", the
      mean over prompts of the standard deviation of their valid rewards; the number of "faults"; "staleness" (mean) and
      "staleness_max" in optimizer steps; "completion_tokens", the mean length of all, with "completion_tokens_min" and
      "completion_tokens_max"; "cut_share", the share of all that filled their room without ending.
    """
    reward, is_valid, is_correct, is_fast, is_cut = (
        np.concatenate([getattr(group, name) for group in groups])
        for name in ("reward", "is_valid", "is_correct", "is_fast", "is_cut")
    )
    valid = max(1, int(is_valid.sum()))
    stale = [staleness(group, step=step) for group in groups]
    spread = [float(np.std(group.reward[group.is_valid])) for group in groups if group.is_valid.any()]
    lengths = np.concatenate([np.asarray(group.rollouts.is_completion.sum(axis=1)) for group in groups])
    return {
        "reward": float(np.where(is_valid, reward, 0).sum() / valid),
        "reward_std": float(np.mean(spread)) if spread else 0.0,
        "correct_share": float((is_correct & is_valid).sum() / valid),
        "fast_share": float((is_fast & is_valid).sum() / valid),
        "faults": int((~is_valid).sum()),
        "staleness": float(np.mean(stale)),
        "staleness_max": max(stale),
        "completion_tokens": float(lengths.mean()),
        "completion_tokens_min": int(lengths.min()),
        "completion_tokens_max": int(lengths.max()),
        "cut_share": float(is_cut.mean()),
    }
