"""Edge: the SFT job: trains the tokenizer and a first policy on the reference programs of the training split.

`python -m optimrl_jax.sft --config=configs/quickstart.py --workdir=runs/quickstart/sft`. All speed classes take part:
the policy starts mediocre on purpose, and speed is for GRPO to find.
"""

import dataclasses
import functools
import logging
import pathlib
import sys
import time
from collections.abc import Sequence

import numpy as np

from optimrl_jax.commands import Job, UserError, run_job
from optimrl_jax.data import dataset, packing, prompts, stream
from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.learner import checkpoints, loss, streams, update, workdir
from optimrl_jax.model import decoder, pretrained
from optimrl_jax.settings import Settings

_LOG = logging.getLogger(__name__)
LOG_EVERY = 20


def main(job: Job) -> None:
    """Trains tokenizer and policy; leaves checkpoints, metrics and `summary.json` in the workdir."""
    settings = job.settings
    workdir.reuse_compiled_programs(job.workdir)
    records = dataset.load(settings.data.directory, settings.data.train_split)
    start = _start(job.workdir, records, settings)
    workdir.write_model(job.workdir, start.settings)
    run = SupervisedRun(job.workdir, _fitting(records, start.tokenizer, settings), start, settings=settings)
    # The trainer has a copy of its own; these would stay in memory to the last step.
    del start
    try:
        figures = run.run()
    except update.DivergedError as error:
        raise UserError(f"sft.learning_rate = {settings.sft.learning_rate}: {error}") from None
    workdir.finish(job.workdir, "SFT", figures, settings=settings)


class SupervisedRun:
    """The training state, the data position and the clock of one SFT job."""

    def __init__(
        self,
        directory: pathlib.Path,
        records: Sequence[dataset.ProblemRecord],
        start: pretrained.Pretrained,
        *,
        settings: Settings,
    ) -> None:
        self._settings = settings
        self._tokenizer = start.tokenizer
        self._stream = stream.examples(records, batch=settings.sft.batch, seed=settings.seed)
        self._trainer = update.Trainer(
            start.params,
            functools.partial(loss.supervised, settings=start.settings),
            update.optimizer_of(settings.sft, ends_at=0.1),
            mesh=settings.mesh,
            micro_rows=settings.data.micro_rows,
            most_skipped=settings.sft.most_skipped,
        )
        self._checkpoints = checkpoints.Checkpoints(directory)
        self._step = 0
        self._stopwatch = workdir.Stopwatch(self._restore())
        self._metrics = workdir.Metrics(directory, first_step=self._step)

    def run(self) -> dict[str, float]:
        """Goes on to the last step and returns the figures of the job."""
        recipe = self._settings.sft
        figures: dict[str, float] = {}
        while self._step < recipe.steps:
            figures = self._advance()
            self._metrics.write(self._step, figures)
            self._step += 1
            if self._step % LOG_EVERY == 0 or self._step == recipe.steps:
                _LOG.info(
                    "step %d/%d  loss %.3f  %.0f tokens/s",
                    self._step,
                    recipe.steps,
                    figures["loss"],
                    figures["tokens_per_s"],
                )
            if self._step % recipe.checkpoint_every == 0 or self._step == recipe.steps:
                self._save()
        self._metrics.close()
        self._checkpoints.close()
        return {"steps": self._step, "wall_s": self._stopwatch.wall_s(), **figures}

    def _advance(self) -> dict[str, float]:
        started_s = time.monotonic()
        packed, used = pack_examples(next(self._stream), self._tokenizer, settings=self._settings)
        completion_tokens = float(packed.per_token["weight"].sum())
        sums = self._trainer.step(packed, used, normalizer=completion_tokens)
        step_s = time.monotonic() - started_s
        return {
            "loss": sums["loss"] / completion_tokens,
            "entropy": sums["entropy"] / completion_tokens,
            "grad_norm": sums["grad_norm"],
            "updated": sums["is_finite"],
            "tokens_per_s": float(np.count_nonzero(packed.segments)) / step_s,
            "step_s": step_s,
        }

    def _save(self) -> None:
        facts = {
            "stream": self._stream.get_state(),
            "skipped_in_a_row": self._trainer.skipped_in_a_row,
            "wall_s": self._stopwatch.wall_s(),
        }
        self._checkpoints.save(self._step, checkpoints.trees_of(self._trainer.state), facts)

    def _restore(self) -> float:
        """Takes up the newest checkpoint; returns the seconds that earlier starts took."""
        restored = self._checkpoints.restore(checkpoints.targets_of(self._trainer.state))
        if restored is None:
            return 0.0
        self._trainer.state = checkpoints.state_of(restored.arrays)
        self._trainer.skipped_in_a_row = restored.facts["skipped_in_a_row"]
        self._stream.set_state(restored.facts["stream"])
        self._step = restored.step
        _LOG.info("going on from the checkpoint of step %d", restored.step)
        return restored.facts["wall_s"]


def pack_examples(
    examples: Sequence[tuple[str, str]], tokenizer: tokenizer_lib.Tokenizer, *, settings: Settings
) -> tuple[packing.Packed, int]:
    """Packs (statement, program) pairs; only the tokens of programs carry weight."""
    data = settings.data
    tokens, weights = [], []
    for statement, program in examples:
        prompt, completion = prompts.prompt(tokenizer, statement), prompts.completion(tokenizer, program)
        tokens.append(np.concatenate([prompt, completion]))
        weights.append(np.repeat(np.float32([0, 1]), [len(prompt), len(completion)]))
    longest = data.prompt_tokens + data.completion_tokens
    microbatches = packing.most_microbatches(
        settings.sft.batch, longest, row_tokens=data.row_tokens, micro_rows=data.micro_rows
    )
    return packing.pack(
        tokens,
        {"weight": weights},
        row_tokens=data.row_tokens,
        micro_rows=data.micro_rows,
        microbatches=microbatches,
    )


def _start(
    directory: pathlib.Path, records: Sequence[dataset.ProblemRecord], settings: Settings
) -> pretrained.Pretrained:
    """Tokenizer and parameters before the first step: those of `sft.init_from`, or trained and drawn here."""
    if settings.sft.init_from:
        found = pretrained.load(settings.sft.init_from, settings.model)
        found.tokenizer.save(directory)
        return found
    tokenizer = _tokenizer(directory, records, settings)
    model = dataclasses.replace(settings.model, vocabulary=tokenizer.size)
    return pretrained.Pretrained(model, decoder.initial(model, streams.key(settings.seed, "parameters")), tokenizer)


def _tokenizer(
    directory: pathlib.Path, records: Sequence[dataset.ProblemRecord], settings: Settings
) -> tokenizer_lib.Tokenizer:
    """The tokenizer of this job, trained on the first start."""
    if (directory / tokenizer_lib.FILE_NAME).exists():
        return tokenizer_lib.load(directory)
    texts = [text for record in records for text in (record.statement, *record.reference_program)]
    tokenizer = tokenizer_lib.train(texts, settings.model.vocabulary)
    tokenizer.save(directory)
    return tokenizer


def _fitting(
    records: Sequence[dataset.ProblemRecord], tokenizer: tokenizer_lib.Tokenizer, settings: Settings
) -> list[dataset.ProblemRecord]:
    """Problems and programs that fit the lengths of `data`; what is left out is counted in the log."""
    data = settings.data
    kept, programs = [], 0
    for record in records:
        if len(prompts.prompt(tokenizer, record.statement)) > data.prompt_tokens:
            continue
        fitting = tuple(
            program
            for program in record.reference_program
            if len(prompts.completion(tokenizer, program)) <= data.completion_tokens
        )
        programs += len(fitting)
        if fitting:
            kept.append(dataclasses.replace(record, reference_program=fitting))
    if not kept:
        raise UserError(
            f"data.prompt_tokens = {data.prompt_tokens}, data.completion_tokens = {data.completion_tokens}: "
            "expected room for at least one statement with one of its programs"
        )
    total = sum(len(record.reference_program) for record in records)
    _LOG.info(
        "%d tokens in the vocabulary; %d of %d problems and %d of %d programs fit",
        tokenizer.size, len(kept), len(records), programs, total,
    )  # fmt: skip
    return kept


if __name__ == "__main__":
    sys.exit(run_job(main))
