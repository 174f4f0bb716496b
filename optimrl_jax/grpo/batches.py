"""From groups of rollouts to a packed batch: freshness, advantages, and what is dropped on the way, counted.

Pure. The order is that of the paper's diagram (L3866): grouped advantages, freshness filter, packing.
"""

from collections.abc import Sequence

import numpy as np

from optimrl_jax.arrays import Rollouts
from optimrl_jax.data import packing
from optimrl_jax.grpo.advantages import advantages
from optimrl_jax.rollout.groups import Group
from optimrl_jax.settings import DataSettings, GrpoSettings

Kept = list[tuple[Group, np.ndarray]]


def select(groups: Sequence[Group], *, step: int, max_staleness: int) -> tuple[Kept, dict[str, float]]:
    """The groups that teach something, each with its advantages float32[r], and the counts of the others.

    A group sampled more than `max_staleness` optimizer steps ago is dropped as stale; one with fewer than two valid
    rollouts as invalid; one whose advantages are all 0 as zero-advantage. Shares are of all groups.
    """
    kept: Kept = []
    dropped = {"stale": 0, "invalid": 0, "zero_advantage": 0}
    for group in groups:
        lengths = group.rollouts.is_completion.sum(axis=1)
        found = np.asarray(advantages(group.reward, lengths, group.is_valid))
        if staleness(group, step=step) > max_staleness:
            dropped["stale"] += 1
        elif group.is_valid.sum() < 2:
            dropped["invalid"] += 1
        elif not found.any():
            dropped["zero_advantage"] += 1
        else:
            kept.append((group, found))
    return kept, {f"{name}_share": count / max(1, len(groups)) for name, count in dropped.items()}


def staleness(group: Group, *, step: int) -> int:
    """Optimizer steps since the oldest policy that sampled any rollout of the group."""
    return step - int(group.rollouts.policy_version.min())


def most_microbatches(grpo: GrpoSettings, data: DataSettings) -> int:
    """Microbatches that hold any groups of a step; raises SettingsError where a row is too short."""
    rows = {"row_tokens": data.row_tokens, "micro_rows": data.micro_rows}
    longest = data.prompt_tokens + data.completion_tokens
    if not data.shares_prompts:
        return packing.most_microbatches(grpo.problems * grpo.rollouts, longest, **rows)
    shared = data.prompt_tokens - 1
    return packing.most_shared_microbatches(grpo.problems, grpo.rollouts, shared=shared, own=longest - shared, **rows)


def sharing(grpo: GrpoSettings, data: DataSettings) -> tuple[int, int]:
    """Tokens that the longest rollouts of a row have in common, and the number of these rollouts; (0, 1) for none."""
    shared, own = data.prompt_tokens - 1, data.completion_tokens + 1
    return (shared, min(grpo.rollouts, (data.row_tokens - shared) // own)) if data.shares_prompts else (0, 1)


def assemble(
    kept: Kept, *, row_tokens: int, micro_rows: int, microbatches: int, shares_prompts: bool
) -> tuple[packing.Packed, int]:
    """Packs every valid rollout whole; masked rollouts leave no trace.

    With `shares_prompts` the rollouts of a group stand as branches behind their prompt. Each branch begins with the
    last token of the prompt: what it predicts differs from branch to branch, and so does what comes next in the row.
    """
    tokens: list[np.ndarray] = []
    per_token: dict[str, list[np.ndarray]] = {"weight": [], "advantage": [], "log_prob": []}
    families: list[packing.Family] = []
    for group, found in kept:
        members = range(len(tokens), len(tokens) + int(group.is_valid.sum()))
        families.append(packing.Family(members, prompt_length(group.rollouts) - 1))
        for row in np.flatnonzero(group.is_valid):
            is_sampled = group.rollouts.is_completion[row]
            length = int(np.flatnonzero(is_sampled)[-1]) + 1
            tokens.append(group.rollouts.tokens[row, :length])
            per_token["weight"].append(is_sampled[:length].astype(np.float32))
            per_token["advantage"].append(np.where(is_sampled[:length], found[row], 0).astype(np.float32))
            per_token["log_prob"].append(group.rollouts.log_prob[row, :length])
    return packing.pack(
        tokens,
        per_token,
        row_tokens=row_tokens,
        micro_rows=micro_rows,
        microbatches=microbatches,
        families=families if shares_prompts else None,
    )


def trained_tokens(kept: Kept) -> int:
    """Tokens of the valid rollouts, prompts included: each rollout's own, whether or not it shares its prompt."""
    lengths = [prompt_length(group.rollouts) + group.rollouts.is_completion.sum(axis=1) for group, _ in kept]
    return sum(int(length[group.is_valid].sum()) for length, (group, _) in zip(lengths, kept, strict=True))


def prompt_length(rollouts: Rollouts) -> int:
    """Tokens of the prompt of a group; raises ValueError where its rollouts have different ones."""
    length = int(np.argmax(rollouts.is_completion.any(axis=0)))
    prompts = rollouts.tokens[:, :length]
    if (prompts != prompts[0]).any():
        raise ValueError("rollouts of one group with different prompts: expected one prompt")
    return length


def figures(groups: Sequence[Group], *, step: int) -> dict[str, float]:
    """What the rollouts of a step were: rewards and shares over the valid ones, faults, staleness, lengths."""
    reward, is_valid, is_correct, is_fast = (
        np.concatenate([getattr(group, name) for group in groups])
        for name in ("reward", "is_valid", "is_correct", "is_fast")
    )
    valid = max(1, int(is_valid.sum()))
    stale = [staleness(group, step=step) for group in groups]
    return {
        "reward": float(np.where(is_valid, reward, 0).sum() / valid),
        "correct_share": float((is_correct & is_valid).sum() / valid),
        "fast_share": float((is_fast & is_valid).sum() / valid),
        "faults": int((~is_valid).sum()),
        "staleness": float(np.mean(stale)),
        "staleness_max": max(stale),
        "completion_tokens": float(np.mean([group.rollouts.is_completion.sum(axis=1).mean() for group in groups])),
    }
