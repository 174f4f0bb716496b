"""The learner: groups of rollouts -> advantages -> freshness -> packing -> one update, with everything counted.

Holds the training state and nothing else: it never samples, never runs programs and never touches a file.
"""

import functools
from collections.abc import Sequence

from optimrl_jax import settings as settings_lib
from optimrl_jax.distributed import multihost
from optimrl_jax.grpo import batches, loss
from optimrl_jax.model import decoder
from optimrl_jax.rollout.groups import Group
from optimrl_jax.settings import GrpoSettings, ModelSettings, Settings
from optimrl_jax.training import trainer


class Learner:
    """Learns from groups; `step` counts the batches it has taken, whether or not they moved the weights."""

    def __init__(self, params: decoder.Params, model: ModelSettings, settings: Settings) -> None:
        grpo, data = settings.grpo, settings.data
        self.step = 0
        self._grpo = grpo
        self.trainer = trainer.Trainer(
            params,
            objective(settings_lib.computed_as(model, settings.model), grpo),
            trainer.optimizer_of(grpo, ends_at=1.0),
            mesh=settings.mesh,
            micro_rows=settings.data.micro_rows,
            most_skipped=grpo.most_skipped,
        )
        self._assemble = functools.partial(
            batches.assemble,
            row_tokens=data.row_tokens,
            micro_rows=data.micro_rows,
            microbatches=batches.most_microbatches(grpo, data),
            shares_prompts=data.shares_prompts,
        )

    def learn(self, groups: Sequence[Group]) -> dict[str, float]:
        """One step on groups, all processes on the same ones; returns its figures.

        Groups that teach nothing are dropped and counted.
        """
        kept, dropped = batches.select(groups, step=self.step, max_staleness=self._grpo.max_staleness)
        found = {**batches.figures(groups, step=self.step), **dropped, "dropped_groups": len(groups) - len(kept)}
        self.step += 1
        if not kept:
            return {**found, "updated": 0.0, "trained_tokens": 0.0}
        packed, used = self._assemble(kept)
        sums = self.trainer.step(packed, used, normalizer=self._grpo.horizon, brought=multihost.spread)
        tokens = max(1.0, sums["tokens"])
        return {
            **found,
            "updated": sums["is_finite"],
            "trained_tokens": float(batches.trained_tokens(kept)),
            "loss": sums["loss"] / self._grpo.horizon,
            "entropy": sums["entropy"] / tokens,
            "clip_share": sums["clipped"] / tokens,
            "kl": sums["kl"] / tokens,
            "grad_norm": sums["grad_norm"],
        }


def objective(model: ModelSettings, grpo: GrpoSettings) -> trainer.Loss:
    """The clipped surrogate with the numbers of the recipe."""
    return functools.partial(
        loss.clipped_surrogate,
        settings=model,
        temperature=grpo.temperature,
        epsilon_low=grpo.epsilon_low,
        epsilon_high=grpo.epsilon_high,
    )
