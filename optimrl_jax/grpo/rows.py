"""How the groups of a step become packed rows: which rows they need, how many a step may fill, and the rows themselves.

Pure NumPy between `rollout.groups` and the update.
"""

import numpy as np

from optimrl_jax.data import packing
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.rollout.groups import Kept, prompt_length
from optimrl_jax.settings import DataSettings, GrpoSettings


def max_microbatches(grpo: GrpoSettings, data: DataSettings) -> int:
    """Bound the number of microbatches that the groups of one step can fill, whatever their lengths.

    Raises:
      SettingsError: if a row is too short for the longest prompt and completion, or a step for one group of these.
    """
    replayed = grpo.replayed_groups if grpo.replay_groups else 0
    if not grpo.batch_tokens:
        return _most_microbatches(grpo.problems + replayed, grpo, data, micro_rows=data.micro_rows)
    rows, wanted = budget_rows(grpo, data), _most_microbatches(1, grpo, data, micro_rows=1)
    if wanted > rows:
        raise SettingsError(
            f"grpo.batch_tokens = {grpo.batch_tokens}: expected at least {wanted * data.row_tokens}, the {wanted} rows "
            "of the longest group"
        )
    return -(-(rows + replayed * wanted) // data.micro_rows)


def budget_rows(grpo: GrpoSettings, data: DataSettings) -> int:
    """Return the rows that `grpo.batch_tokens` allows to one step."""
    return grpo.batch_tokens // data.row_tokens


def _most_microbatches(groups: int, grpo: GrpoSettings, data: DataSettings, *, micro_rows: int) -> int:
    rows = {"row_tokens": data.row_tokens, "micro_rows": micro_rows}
    longest = data.prompt_tokens + data.completion_tokens
    if not data.shares_prompts:
        return packing.max_packed_microbatches(groups * grpo.rollouts, longest, **rows)
    shared = data.prompt_tokens - 1
    return packing.max_shared_microbatches(groups, grpo.rollouts, shared=shared, own=longest - shared, **rows)


def prefix_sharing(grpo: GrpoSettings, data: DataSettings) -> tuple[int, int]:
    """Return how many tokens the longest rollouts of a row share, and how many rollouts share them.

    Returns:
      (shared tokens, rollouts of a row that share them); (0, 1) where `data.shares_prompts` is off.
    """
    shared, own = data.prompt_tokens - 1, data.completion_tokens + 1
    return (shared, min(grpo.rollouts, (data.row_tokens - shared) // own)) if data.shares_prompts else (0, 1)


def count_rows(kept: Kept, data: DataSettings) -> int:
    """Count the rows that `pack_groups` fills with these groups."""
    lengths: list[int] = []
    groups: list[packing.PrefixGroup] = []
    for group, _ in kept:
        sampled = np.asarray(group.rollouts.is_completion)[np.asarray(group.is_valid)]
        members = range(len(lengths), len(lengths) + len(sampled))
        groups.append(packing.PrefixGroup(members, prompt_length(group.rollouts) - 1))
        lengths += [int(np.flatnonzero(row)[-1]) + 1 for row in sampled]
    return packing.count_rows(lengths, groups if data.shares_prompts else None, row_tokens=data.row_tokens)


def normalize(kept: Kept, grpo: GrpoSettings) -> tuple[Kept, float]:
    """Return groups with the weights that `grpo.loss_norm` gives their rollouts, and what divides the sum over tokens.

    "horizon" leaves advantages as they are and divides by N (App. F, Eq. 38). "length" divides the advantage of each
    rollout by the number of its tokens, and the sum by the number of rollouts: a mean of means. "tokens" divides by the
    sampled tokens of all. Only the first makes the weight of a token independent of the others (sec. 5, "Can GRPO be
    stable enough").
    """
    if grpo.loss_norm == "horizon":
        return kept, float(grpo.horizon)
    lengths = [np.asarray(group.rollouts.is_completion.sum(axis=1)) for group, _ in kept]
    valid = [np.asarray(group.is_valid) for group, _ in kept]
    if grpo.loss_norm == "tokens":
        return kept, float(sum(length[own].sum() for length, own in zip(lengths, valid, strict=True)))
    scaled = [(group, own / np.maximum(length, 1)) for (group, own), length in zip(kept, lengths, strict=True)]
    return scaled, float(sum(own.sum() for own in valid))


def pack_groups(
    kept: Kept, *, row_tokens: int, micro_rows: int, microbatches: int, shares_prompts: bool
) -> tuple[packing.Packed, int]:
    """Pack every valid rollout into rows, whole; leave invalid ones out.

    With `shares_prompts` the rollouts of a group stand as suffixes behind their prompt, which is stored once. A suffix
    begins with the last token of the prompt: what that token predicts differs from rollout to rollout.

    Args:
      kept: groups with their advantages `[r]`, as `select_informative` returns them.
      row_tokens: length of a row.
      micro_rows: rows of a microbatch.
      microbatches: microbatches of the result; those that stay empty are padding.
      shares_prompts: whether rollouts of a group may stand behind one prompt.

    Returns:
      Packed arrays `[microbatches, micro_rows, row_tokens]` with "weight", "advantage" and "log_prob" for each token,
      and the number of microbatches that hold anything.

    Raises:
      ValueError: if the rollouts of a group have different prompts.
    """
    tokens: list[np.ndarray] = []
    per_token: dict[str, list[np.ndarray]] = {"weight": [], "advantage": [], "log_prob": []}
    groups: list[packing.PrefixGroup] = []
    for group, group_advantages in kept:
        members = range(len(tokens), len(tokens) + int(group.is_valid.sum()))
        groups.append(packing.PrefixGroup(members, prompt_length(group.rollouts) - 1))
        for row in np.flatnonzero(group.is_valid):
            is_sampled = np.asarray(group.rollouts.is_completion[row])
            length = int(np.flatnonzero(is_sampled)[-1]) + 1
            tokens.append(np.asarray(group.rollouts.tokens[row, :length]))
            per_token["weight"].append(is_sampled[:length].astype(np.float32))
            per_token["advantage"].append(np.where(is_sampled[:length], group_advantages[row], 0).astype(np.float32))
            per_token["log_prob"].append(np.asarray(group.rollouts.log_prob[row, :length]))
    return packing.pack_sequences(
        tokens,
        per_token,
        row_tokens=row_tokens,
        micro_rows=micro_rows,
        microbatches=microbatches,
        groups=groups if shares_prompts else None,
    )


def trained_tokens(kept: Kept) -> int:
    """Count the tokens of all valid rollouts, prompts included.

    A prompt counts once for each of its rollouts, whether or not the rows share it.
    """
    lengths = [prompt_length(group.rollouts) + group.rollouts.is_completion.sum(axis=1) for group, _ in kept]
    return sum(int(length[group.is_valid].sum()) for length, (group, _) in zip(lengths, kept, strict=True))
