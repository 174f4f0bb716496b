"""The learner: groups of rollouts -> advantages -> freshness -> packing -> one update, with everything counted.

Holds the training state and nothing else: it never samples, never runs programs and never touches a file.
"""

import functools
from collections.abc import Sequence

import numpy as np

from optimrl_jax import settings as settings_lib
from optimrl_jax.data import packing
from optimrl_jax.learner import batches, loss, processes, update
from optimrl_jax.learner.queue import Group
from optimrl_jax.model import decoder
from optimrl_jax.settings import GrpoSettings, ModelSettings, Settings


class Learner:
    """Learns from groups; `step` counts the batches it has taken, whether or not they moved the weights."""

    def __init__(self, params: decoder.Params, model: ModelSettings, settings: Settings) -> None:
        grpo, data, sharers = settings.grpo, settings.data, settings.processes.count
        self.step = 0
        self._grpo = grpo
        self.trainer = update.Trainer(
            params,
            objective(settings_lib.computed_as(model, settings.model), grpo),
            update.optimizer_of(grpo, ends_at=1.0),
            mesh=settings.mesh,
            micro_rows=settings.data.micro_rows,
            most_skipped=grpo.most_skipped,
        )
        self._assemble = functools.partial(
            batches.assemble,
            row_tokens=data.row_tokens,
            micro_rows=data.micro_rows // sharers,
            microbatches=packing.most_microbatches(
                grpo.problems * grpo.rollouts // sharers,
                data.prompt_tokens + data.completion_tokens,
                row_tokens=data.row_tokens,
                micro_rows=data.micro_rows // sharers,
            ),
        )

    def learn(self, groups: Sequence[Group]) -> dict[str, float]:
        """One step on the groups of this process; returns its figures, which are those of all processes.

        Groups that teach nothing are dropped and counted.
        """
        kept, dropped = batches.select(groups, step=self.step, max_staleness=self._grpo.max_staleness)
        packed, used = self._assemble(kept)
        own = {**batches.sums(groups, step=self.step), **dropped, "trained": float(np.count_nonzero(packed.segments))}
        sums = processes.totals(own)
        oldest = processes.most(max(batches.staleness(group, step=self.step) for group in groups))
        found = {**batches.figures(sums), "staleness_max": oldest, "trained_tokens": sums["trained"]}
        self.step += 1
        # A process whose groups teach nothing still takes part in the step of the others.
        if not sums["trained"]:
            return {**found, "updated": 0.0}
        losses = self.trainer.step(packed, used, normalizer=self._grpo.horizon)
        tokens = max(1.0, losses["tokens"])
        return {
            **found,
            "updated": losses["is_finite"],
            "loss": losses["loss"] / self._grpo.horizon,
            "entropy": losses["entropy"] / tokens,
            "clip_share": losses["clipped"] / tokens,
            "kl": losses["kl"] / tokens,
            "grad_norm": losses["grad_norm"],
        }


def objective(model: ModelSettings, grpo: GrpoSettings) -> update.Loss:
    """The clipped surrogate with the numbers of the recipe."""
    return functools.partial(
        loss.clipped_surrogate,
        settings=model,
        temperature=grpo.temperature,
        epsilon_low=grpo.epsilon_low,
        epsilon_high=grpo.epsilon_high,
    )
