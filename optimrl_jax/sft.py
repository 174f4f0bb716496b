"""Edge: the SFT job: trains the tokenizer and a first policy on programs of the training split, or on conversations.

`python -m optimrl_jax.sft --config=configs/quickstart.py --workdir=runs/quickstart/sft`. All speed classes take part:
the policy starts mediocre on purpose, and speed is for GRPO to find. `sft.mix` names files of conversations instead.
"""

import contextlib
import dataclasses
import functools
import logging
import pathlib
import sys
import time
from collections.abc import Sequence

import numpy as np

from optimrl_jax import arrays
from optimrl_jax.data import chat, packing
from optimrl_jax.data.corpus import Corpus, corpus_of_dataset, corpus_of_mix
from optimrl_jax.distributed import multihost, sharding
from optimrl_jax.jobs.command_line import Job, run_job
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.locks import locked_directory
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.model import decoder
from optimrl_jax.model.adapters import frozen_base
from optimrl_jax.model.pretrained import published
from optimrl_jax.planning import dry_run
from optimrl_jax.settings import DataSettings, Network, Settings
from optimrl_jax.training import adaptation, checkpoints, metric_sinks, objectives, trainer, workdir

_LOG = logging.getLogger(__name__)
# Share of the peak learning rate at the last step.
ENDS_AT = 0.1


def main(job: Job) -> None:
    """Train tokenizer and policy; leave checkpoints, metrics and `summary.json` in the workdir.

    Raises:
      UserError: if something named in the settings is missing or does not fit, another job is at work in the workdir,
        or the run diverges.
    """
    with multihost.distributed_session(job.settings, shared=multihost.SHARED_IN_SFT):
        own = multihost.process_directory(job.workdir)
        with locked_directory(own, field="--workdir"):
            _run(job, own=own)


def _run(job: Job, *, own: pathlib.Path) -> None:
    settings = job.settings
    workdir.claim_workdir(job.workdir, "sft", settings)
    metric_sinks.check_sinks(settings.metrics)
    workdir.reuse_compiled_programs(job.workdir)
    start = _start(own, settings)
    corpus = (corpus_of_mix if settings.sft.mix else corpus_of_dataset)(
        own, settings, part=multihost.process_index_and_count()
    )
    model = start.settings if start else dataclasses.replace(settings.model, vocabulary=corpus.vocabulary)
    params = start.params if start else decoder.initial_params(model, arrays.stream_key(settings.seed, "parameters"))
    workdir.write_model(own, model)
    network = Network.of(model, settings.compute)
    if settings.lora.rank:
        params = frozen_base(params, network)
        adaptation.write_base(own, settings.lora, settings.sft.init_from, None, params)
    run = SupervisedRun(job.workdir, corpus, params, network=network, settings=settings)
    # The trainer has a copy of its own; these would stay in memory to the last step.
    del start, params
    try:
        figures = run.run()
    except trainer.DivergedError as error:
        raise UserError(f"sft.learning_rate = {settings.sft.learning_rate}: {error}") from None
    workdir.write_summary(own, "SFT", figures, settings=settings)


class SupervisedRun:
    """The training state, the data position and the clock of one SFT job; restores the newest checkpoint, if any.

    Args:
      directory: workdir of the job.
      corpus: examples in order, and how they are encoded.
      params: to start from; copied.
      network: that of the policy.
      settings: those of the job.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        corpus: Corpus,
        params: decoder.Params,
        *,
        network: Network,
        settings: Settings,
    ) -> None:
        self._settings = settings
        self._corpus = corpus
        self._stream = corpus.stream
        self._trainer = adaptation.build_trainer(
            params,
            network,
            settings,
            loss=functools.partial(objectives.supervised, settings=network),
            optimizer=trainer.build_optimizer(settings.sft, ends_at=ENDS_AT),
            most_skipped=settings.sft.most_skipped,
        )
        self._checkpoints = checkpoints.Checkpoints(directory, kept=settings.checkpoints)
        self._step = 0
        self._stopwatch = workdir.Stopwatch(self._restore())
        self._metrics = workdir.MetricsWriter(
            multihost.process_directory(directory),
            first_step=self._step,
            open_sinks=metric_sinks.sink_opener(settings),
        )

    def run(self) -> dict[str, float]:
        """Train to the last step and return the figures of the job.

        Returns:
          The figures of the last step, with "steps" and "wall_s", the seconds of all starts together.

        Raises:
          DivergedError: after `sft.most_skipped` updates in a row without a finite gradient.
          UserError: if the last checkpoint cannot be written.
        """
        recipe = self._settings.sft
        figures: dict[str, float] = {}
        with (
            contextlib.closing(self._metrics) as metrics,
            JobProgress("step", recipe.steps, done=self._step) as progress,
        ):
            while self._step < recipe.steps and (found := self._advance()):
                figures = found
                metrics.write(self._step, figures)
                self._step += 1
                progress.advance_to(self._step, f"loss {figures['loss']:.3f}  {figures['tokens_per_s']:.0f} tokens/s")
                if self._step % recipe.checkpoint_every == 0 or self._step == recipe.steps:
                    self._save()
            if self._step < recipe.steps and self._step % recipe.checkpoint_every:
                self._save()
        self._checkpoints.close()
        return {"steps": self._step, "wall_s": self._stopwatch.wall_s(), **figures}

    def _advance(self) -> dict[str, float]:
        """Take a step and return its figures; none where `sft.epochs` of the mix are through."""
        started_s = time.monotonic()
        taken = self._corpus.encode(next(self._stream))
        if not multihost.global_max(len(taken.examples)):
            return {}
        packed, used = pack_examples(taken.examples, most=self._corpus.microbatches, data=self._settings.data)
        completion_tokens = multihost.global_sum(float(packed.per_token["weight"].sum()))
        learning_rate = trainer.current_rate(self._trainer.state, self._settings.sft, ends_at=ENDS_AT)
        sums = self._trainer.step(packed, used, normalizer=completion_tokens)
        step_s = time.monotonic() - started_s
        return {
            "loss": sums["loss"] / completion_tokens,
            "entropy": sums["entropy"] / completion_tokens,
            "grad_norm": sums["grad_norm"],
            "learning_rate": learning_rate,
            "updated": sums["is_finite"],
            "left_out": taken.left_out,
            "tokens_per_s": float(np.count_nonzero(packed.segments)) / step_s,
            "step_s": step_s,
        }

    def _save(self) -> None:
        metadata = {
            "stream": self._stream.get_state(),
            "skipped_in_a_row": self._trainer.skipped_in_a_row,
            "wall_s": self._stopwatch.wall_s(),
        }
        self._checkpoints.save(self._step, checkpoints.to_trees(self._trainer.state), metadata)

    def _restore(self) -> float:
        """Restore the newest checkpoint, if any; return the seconds that earlier starts took."""
        restored = self._checkpoints.restore(checkpoints.restore_targets(self._trainer.state))
        if restored is None:
            return 0.0
        self._trainer.state = checkpoints.from_trees(restored.arrays)
        self._trainer.skipped_in_a_row = restored.metadata["skipped_in_a_row"]
        self._stream.set_state(restored.metadata["stream"])
        self._step = restored.step
        _LOG.info("going on from the checkpoint of step %d", restored.step)
        return restored.metadata["wall_s"]


def pack_examples(
    examples: Sequence[chat.EncodedExample], *, most: int, data: DataSettings
) -> tuple[packing.Packed, int]:
    """Pack examples into microbatches; only the tokens of completions carry weight.

    Args:
      examples: token ids with their weights.
      most: microbatches of the result; those that stay empty are padding.
      data: length of rows, and rows of a microbatch over all processes.

    Returns:
      Packed arrays `[most, rows of this process, row_tokens]`, and the number of microbatches that hold anything.
    """
    return packing.pack_sequences(
        [example.tokens for example in examples],
        {"weight": [example.weight for example in examples]},
        row_tokens=data.row_tokens,
        micro_rows=data.micro_rows // multihost.process_index_and_count()[1],
        microbatches=most,
    )


def _start(directory: pathlib.Path, settings: Settings) -> published.Pretrained | None:
    """Load the weights of `sft.init_from` and make their tokenizer that of this job; None where nothing is named."""
    adaptation.require_start(settings)
    if not settings.sft.init_from:
        return None
    mesh = sharding.build_mesh(settings.mesh, micro_rows=settings.data.micro_rows)
    found = published.load_published(settings.sft.init_from, mesh=mesh)
    found.tokenizer.save(directory)
    return found


if __name__ == "__main__":
    sys.exit(run_job(main, dry_run=dry_run.sft))
