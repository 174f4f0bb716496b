"""Edge: the GRPO loop: groups come from a source, the learner takes a step, weights go back; resumable at any step.

`Learner` holds the training state and turns groups into one update: it never samples and never runs a program.
`TrainingLoop` joins it to a `RolloutSource` and keeps both in checkpoints: `sync_rollouts` has the source in which
actor and learner take turns, `actors.coordinator` the one in which they work at the same time.
"""

import functools
import logging
import pathlib
import time
import typing
from collections.abc import Sequence

from optimrl_jax.distributed import multihost
from optimrl_jax.grpo import rows as rows_lib
from optimrl_jax.grpo.step_groups import StepCollector
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.model import decoder
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.rollout.groups import Group
from optimrl_jax.settings import CheckpointSettings, GrpoSettings, Network, Settings
from optimrl_jax.training import adaptation, checkpoints, metric_sinks, objectives, trainer
from optimrl_jax.training import workdir as workdir_lib

_LOG = logging.getLogger(__name__)
# Share of the peak learning rate at the last step: constant after the warm-up.
ENDS_AT = 1.0


class Learner:
    """Turns groups of rollouts into updates of the policy.

    Args:
      params: the policy to start from; copied.
      model: network of the policy.
      settings: those of the whole job.

    Attributes:
      step: batches taken so far, whether or not they moved the weights.
      settings: those of the whole job.
      trainer: the training state and its compiled update.
      to_policy: from what is trained to the weights of the policy; None where they are the same.
    """

    def __init__(self, params: decoder.Params, model: Network, settings: Settings) -> None:
        grpo, data = settings.grpo, settings.data
        self.step = 0
        self.settings = settings
        self._grpo = grpo
        self.trainer = adaptation.build_trainer(
            params,
            model,
            settings,
            loss=objective(model, grpo, importance_cap=settings.engine.importance_cap if grpo.sampler else 0.0),
            optimizer=trainer.build_optimizer(grpo, ends_at=ENDS_AT),
            most_skipped=grpo.most_skipped,
        )
        self.to_policy = adaptation.policy_on_devices(self.trainer, model, settings.lora)
        self._assemble = functools.partial(
            rows_lib.pack_groups,
            row_tokens=data.row_tokens,
            micro_rows=data.micro_rows,
            microbatches=rows_lib.max_microbatches(grpo, data),
            shares_prompts=data.shares_prompts,
        )

    def learn(self, groups: Sequence[Group], *, replayed: Sequence[Group] = ()) -> dict[str, float]:
        """Take one step on the groups of a batch and return its figures.

        Groups that are stale, have fewer than two valid rollouts or only zero advantages are dropped and counted; where
        none is left, the weights stay and the step counts all the same.

        Args:
          groups: at least one; the same ones, in the same order, in every process.
          replayed: older groups that are learned from once more, likewise; no figure of the rollouts counts them.

        Returns:
          Figures by name: those of `group_metrics`, the shares of dropped groups, "updated" (0 or 1) and
          "trained_tokens"; where anything was trained on, also the loss (App. F, Eq. 38), the gradient norm, the
          learning rate, and averages over the trained tokens.

        Raises:
          DivergedError: after `grpo.most_skipped` updates in a row without a finite gradient.
        """
        select = functools.partial(
            groups_lib.select_informative,
            step=self.step,
            max_staleness=self._grpo.max_staleness,
            scale=self._grpo.advantage_scale,
        )
        kept, dropped = select(groups)
        found = {
            **groups_lib.group_metrics(groups, step=self.step),
            **dropped,
            "dropped_groups": len(groups) - len(kept),
            **({"replayed_groups": len(replayed)} if self._grpo.replay_groups else {}),
        }
        kept += select(replayed)[0]
        self.step += 1
        if not kept:
            return {**found, "updated": 0.0, "trained_tokens": 0.0}
        weighted, normalizer = rows_lib.normalize(kept, self._grpo)
        packed, used = self._assemble(weighted)
        learning_rate = trainer.current_rate(self.trainer.state, self._grpo, ends_at=ENDS_AT)
        sums = self.trainer.step(packed, used, normalizer=normalizer, place=multihost.from_replicated)
        tokens = max(1.0, sums["tokens"])
        return {
            **found,
            "updated": sums["is_finite"],
            "trained_tokens": float(rows_lib.trained_tokens(kept)),
            "loss": sums["loss"] / normalizer,
            "entropy": sums["entropy"] / tokens,
            "clip_share": sums["clipped"] / tokens,
            "kl": sums["kl"] / tokens,
            "sampler_mismatch": sums["mismatch"] / tokens,
            **self._engine_figures(sums, tokens),
            "grad_norm": sums["grad_norm"],
            "learning_rate": learning_rate,
        }

    def policy_params(self) -> decoder.Params:
        """Return the weights of the policy as it is; the next step may donate them."""
        trained = self.trainer.state.params
        return self.to_policy(trained) if self.to_policy else trained

    def _engine_figures(self, sums: dict[str, float], tokens: float) -> dict[str, float]:
        """Compare learner and engine, where one samples: the ratio of probabilities, and how often it is truncated."""
        if not self._grpo.sampler:
            return {}
        return {"sampler_ratio": sums["ratio"] / tokens, "truncated_share": sums["truncated"] / tokens}


def objective(model: Network, grpo: GrpoSettings, *, importance_cap: float = 0.0) -> trainer.Loss:
    """Return the clipped surrogate (App. F, Eq. 38) with the numbers of the recipe.

    Args:
      model: network of the policy.
      grpo: temperature and clip range.
      importance_cap: see `objectives.clipped_surrogate`; 0 where the policy samples its rollouts itself.

    Returns:
      A loss of (params, packed rows), for `trainer.Trainer`.
    """
    return functools.partial(
        objectives.clipped_surrogate,
        settings=model,
        temperature=grpo.temperature,
        epsilon_low=grpo.epsilon_low,
        epsilon_high=grpo.epsilon_high,
        importance_cap=importance_cap,
    )


class RolloutSource(typing.Protocol):
    """Where the groups of a run come from.

    `state(step=)` returns trees of arrays and plain metadata for a checkpoint, from which `restore` goes on; `close`
    ends whatever the source has started.
    """

    def take(self, *, step: int, number: int) -> list[Group]:
        """Take this process's share of the next `number` groups of all processes, who deal them out in turn.

        Args:
          step: optimizer steps taken so far.
          number: groups wanted, over all processes.
        """

    def give_back(self, groups: Sequence[Group], *, number: int) -> None:
        """Put back what this process holds of the last `number` groups: they are the next ones that `take` returns."""

    def figures(self) -> dict[str, float]:
        """Return how the groups since the last call came about, such as seconds of sampling."""

    def update_weights(self, params: decoder.Params, version: int) -> None:
        """Sample with these weights from now on; they are copied, because the caller donates its own afterwards.

        The source makes the policy's weights of them where they are adapters (`Learner.to_policy`).

        All processes call this at the same step: the weights may lie on the devices of all of them.
        """

    def state(self, *, step: int) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]: ...

    def restore(self, arrays: dict[str, typing.Any], metadata: dict[str, typing.Any]) -> None: ...

    def close(self) -> None: ...


class EvaluatesPolicy(typing.Protocol):
    """What the loop needs of `evaluation.held_out.during_training.HeldOutEvaluation`; see there."""

    def is_due(self, step: int) -> bool: ...

    def forget_after(self, step: int) -> None: ...

    def evaluate(self, params: decoder.Params, step: int) -> dict[str, float]: ...


class TrainingLoop:
    """A rollout source and a learner, with their common state in checkpoints.

    Each of several processes has a source of its own, which gives its share of the groups of a step; all learn from all
    groups. Building the loop restores the newest checkpoint of the workdir, if there is one.

    Args:
      source: where groups come from; closed at the end of `run`.
      learner: newly built; its state is replaced by a restored one.
      workdir: that of the job, for checkpoints and metrics.
      settings: the recipe.
      measured_under: calibrations of the dataset's durations; a run that goes on under other ones logs a warning.
      kept: which checkpoints stay on disk.
      open_sinks: opens what gets the figures beside `metrics.jsonl`.
      held_out: scores the weights while they are trained; None where nothing does.
    """

    def __init__(
        self,
        source: RolloutSource,
        learner: Learner,
        *,
        workdir: pathlib.Path,
        settings: GrpoSettings,
        measured_under: typing.Sequence[str] = (),
        kept: CheckpointSettings = checkpoints.KEEP_TWO,
        open_sinks: metric_sinks.SinkOpener = metric_sinks.no_sinks,
        held_out: EvaluatesPolicy | None = None,
    ) -> None:
        self._source = source
        self._learner = learner
        self._collector = StepCollector(source, settings, learner.settings.data, seed=learner.settings.seed)
        self._settings = settings
        self._measured_under = sorted(measured_under)
        self._checkpoints = checkpoints.Checkpoints(workdir, kept=kept)
        self._held_out = held_out
        self._stopwatch = workdir_lib.Stopwatch(self._restore())
        self._metrics = workdir_lib.MetricsWriter(
            multihost.process_directory(workdir), first_step=learner.step, open_sinks=open_sinks
        )

    def run(self) -> dict[str, float]:
        """Train to the last step.

        Returns:
          The figures of the last step, with those of the last weights on held-out problems, "steps", and "wall_s", the
          seconds of all starts together.

        Raises:
          UserError: if the last checkpoint cannot be written.
          DivergedError: after `grpo.most_skipped` updates in a row without a finite gradient.
        """
        figures: dict[str, float] = {}
        steps = self._settings.steps
        try:
            with JobProgress("step", steps, done=self._learner.step) as progress:
                while self._learner.step < steps:
                    scores = self._evaluate_if_due()
                    figures = self._step()
                    self._metrics.write(self._learner.step - 1, {**figures, **scores})
                    progress.advance_to(self._learner.step, _step_text(figures))
                    self._save_if_due()
            if scores := self._evaluate_if_due():
                self._metrics.write(steps, scores)
        finally:
            self._source.close()
            self._metrics.close()
            self._checkpoints.wait()
        self._checkpoints.close()
        return {"steps": self._learner.step, "wall_s": self._stopwatch.wall_s(), **figures, **scores}

    def _evaluate_if_due(self) -> dict[str, float]:
        """Score the weights of this step; a run that goes on from here finds the records that an earlier start left."""
        if self._held_out is None or not self._held_out.is_due(self._learner.step):
            return {}
        return self._held_out.evaluate(self._learner.policy_params(), self._learner.step)

    def _save_if_due(self) -> None:
        step = self._learner.step
        if step % self._settings.checkpoint_every == 0 or step == self._settings.steps:
            self._save()

    def _step(self) -> dict[str, float]:
        started_s = time.monotonic()
        groups, replayed = self._collector.collect(step=self._learner.step)
        learn_s = time.monotonic()
        figures = self._learner.learn(groups, replayed=replayed)
        if self._learner.step % self._settings.broadcast_every == 0:
            self._source.update_weights(self._learner.trainer.state.params, self._learner.step)
        now_s = time.monotonic()
        sampled = sum(int(group.rollouts.is_completion.sum()) for group in groups)
        timings = {"update_s": now_s - learn_s, "step_s": now_s - started_s}
        return {**figures, **self._source.figures(), **timings, "tokens_per_s": sampled / timings["step_s"]}

    def _save(self) -> None:
        arrays, metadata = self._source.state(step=self._learner.step)
        trainer = self._learner.trainer
        own = {
            "skipped_in_a_row": trainer.skipped_in_a_row,
            "wall_s": self._stopwatch.wall_s(),
            "measured_under": self._measured_under,
        }
        trees = {**checkpoints.to_trees(trainer.state), **arrays, "replay": self._collector.state()}
        self._checkpoints.save(self._learner.step, trees, {**metadata, **own})

    def _restore(self) -> float:
        """Restore the newest checkpoint, if any; return the seconds that earlier starts took."""
        trainer = self._learner.trainer
        targets = checkpoints.restore_targets(trainer.state)
        others = {"actor": targets["params"], "queue": None, "replay": None}
        restored = self._checkpoints.restore({**targets, **others}, optional=others)
        if self._held_out is not None:
            self._held_out.forget_after(restored.step if restored else 0)
        if restored is None:
            # The first batch too is sampled from a copy on the actor's devices: an update donates the learner's.
            self._source.update_weights(trainer.state.params, self._learner.step)
            return 0.0
        arrays, metadata = restored.arrays, restored.metadata
        trainer.state = checkpoints.from_trees(arrays)
        trainer.skipped_in_a_row = metadata["skipped_in_a_row"]
        self._learner.step = restored.step
        self._source.restore(arrays, metadata)
        self._collector.restore(arrays.get("replay"))
        _LOG.info("going on from the checkpoint of step %d", restored.step)
        if metadata.get("measured_under", self._measured_under) != self._measured_under:
            _LOG.warning("durations were measured anew since that checkpoint: rewards before and after it differ")
        return metadata["wall_s"]


def _step_text(figures: dict[str, typing.Any]) -> str:
    percent = {name: 100 * figures[f"{name}_share"] for name in ("correct", "fast", "zero_advantage")}
    return (
        f"reward {figures['reward']:.3f}  correct {percent['correct']:.0f} %  "
        f"fast {percent['fast']:.0f} %  no signal {percent['zero_advantage']:.0f} %  faults {figures['faults']}  "
        f"{figures['step_s']:.1f} s"
    )
