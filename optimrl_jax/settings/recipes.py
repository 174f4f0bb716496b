"""The recipes of the two trainers, and what stays of their checkpoints."""

import dataclasses

from optimrl_jax.jobs.checked_fields import (
    NOT_NEGATIVE,
    OPEN_SHARE,
    POSITIVE,
    URL,
    one_of,
    setting,
)


@dataclasses.dataclass(frozen=True)
class SftSettings:
    """The recipe of supervised fine-tuning."""

    init_from: str = setting("", "weights to start from: Hugging Face directory, GGUF file, gguf:PACKAGE; empty: none")
    needs_weights: bool = setting(False, "an empty init_from is refused: this recipe is not one for random weights")
    steps: int = setting(400, "optimizer steps, at most", POSITIVE)
    epochs: int = setting(
        0, "passes over the mix after which the job ends, if steps do not end it; 0: none", NOT_NEGATIVE
    )
    batch: int = setting(32, "programs of one step", POSITIVE)
    batch_tokens: int = setting(
        0, "tokens of one step, examples being taken while they fit; 0: `batch` examples, however long", NOT_NEGATIVE
    )
    mix: tuple[tuple[str, float], ...] = setting(
        (),
        "(JSONL or Parquet file of `messages`, or DATASET:SPLIT for the programs of a dataset; weight) of each source, "
        "whose examples come `weight` times in an epoch; empty: the programs of data.directory",
    )
    tokenizer: str = setting("", "directory of the tokenizer files of a model; empty: one is trained here")
    learning_rate: float = setting(2e-3, "peak of the schedule", POSITIVE)
    warmup_steps: int = setting(50, "linear warm-up, steps", NOT_NEGATIVE)
    weight_decay: float = setting(0.05, "decoupled weight decay", NOT_NEGATIVE)
    max_grad_norm: float = setting(1.0, "global clipping norm", POSITIVE)
    checkpoint_every: int = setting(100, "steps between checkpoints", POSITIVE)
    most_skipped: int = setting(10, "updates in a row without a finite gradient before the run stops", POSITIVE)


@dataclasses.dataclass(frozen=True)
class GrpoSettings:
    """The recipe of GRPO: sec. 5, "Can GRPO be stable ...?", and App. F."""

    init_from: str = setting("", "workdir of the SFT job to start from, or weights as in sft.init_from")
    sampler: str = setting(
        "", "http(s)://host:port/v1 of an engine that samples the rollouts (see engine); empty: the actors do", URL
    )
    steps: int = setting(80, "optimizer steps", POSITIVE)
    problems: int = setting(6, "prompts asked for at a time; those of one step, unless batch_tokens is set", POSITIVE)
    batch_tokens: int = setting(
        0,
        "tokens of the packed rows of one step: groups with a training signal are taken while they fit; 0: the groups "
        "of `problems` prompts, with a signal or without",
        NOT_NEGATIVE,
    )
    most_groups: int = setting(
        1000,
        "groups of one step, with a signal or without, after which it takes what there is (batch_tokens)",
        POSITIVE,
    )
    rollouts: int = setting(16, "G, rollouts of one prompt", (lambda v: v >= 2, "at least 2"))
    temperature: float = setting(1.0, "sampling temperature", POSITIVE)
    learning_rate: float = setting(3e-4, "peak of the schedule", POSITIVE)
    warmup_steps: int = setting(5, "linear warm-up, steps", NOT_NEGATIVE)
    weight_decay: float = setting(0.0, "decoupled weight decay", NOT_NEGATIVE)
    max_grad_norm: float = setting(1.0, "global clipping norm", POSITIVE)
    epsilon_low: float = setting(0.2, "lower clip of the ratio", OPEN_SHARE)
    epsilon_high: float = setting(0.25, "upper clip of the ratio", NOT_NEGATIVE)
    advantage_scale: str = setting(
        "none",
        "what advantages are divided by: nothing, or the deviation of the group's returns",
        one_of("none", "std"),
    )
    loss_norm: str = setting(
        "horizon",
        "what the sum over tokens is divided by: the fixed horizon; the length of each rollout, and their number; or "
        "all sampled tokens of the step",
        one_of("horizon", "length", "tokens"),
    )
    horizon: int = setting(32_768, "N, fixed token horizon of the loss", POSITIVE)
    replay_groups: int = setting(
        0, "newest groups with a signal that are kept to be learned from again; 0: none, each once", NOT_NEGATIVE
    )
    replayed_groups: int = setting(
        1, "of the kept groups, how many random ones that are fresh enough join each step", POSITIVE
    )
    max_staleness: int = setting(30, "S_max, optimizer steps", NOT_NEGATIVE)
    broadcast_every: int = setting(1, "K, steps between weight broadcasts to the actor", POSITIVE)
    ahead: int = setting(0, "batches the actor works ahead of the learner", NOT_NEGATIVE)
    most_skipped: int = setting(10, "updates in a row without a finite gradient before the run stops", POSITIVE)
    checkpoint_every: int = setting(10, "steps between checkpoints", POSITIVE)
    keeps_rollouts: bool = setting(True, "every rollout with its verdicts is written to Parquet in the workdir")


MATRIX_NAMES = ("query", "key", "value", "output", "gate", "up", "down")


@dataclasses.dataclass(frozen=True)
class LoraSettings:
    """Low-rank adapters beside frozen weights: W + (alpha / rank) A B, of which A and B are trained (SFT and GRPO)."""

    rank: int = setting(0, "columns of A and rows of B; 0: no adapters, all weights are trained", NOT_NEGATIVE)
    alpha: float = setting(32.0, "scale of the adapters; they are added alpha / rank times", POSITIVE)
    targets: tuple[str, ...] = setting(
        MATRIX_NAMES,
        f"matrices of each layer that have an adapter, among {', '.join(MATRIX_NAMES)}",
        (lambda value: value and set(value) <= set(MATRIX_NAMES), f"some of {', '.join(MATRIX_NAMES)}"),
    )

    @property
    def scale(self) -> float:
        """Return what A B is multiplied with."""
        return self.alpha / self.rank


@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """Which checkpoints of a job stay on disk."""

    keep: int = setting(2, "newest checkpoints that stay; 0: all", NOT_NEGATIVE)
    keep_every: int = setting(0, "checkpoints of multiples of so many steps stay as well; 0: none", NOT_NEGATIVE)
