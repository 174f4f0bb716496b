"""Edge: how a decision about one problem becomes a named Beam transform with counters and a side output.

A stage is a function `problem -> Problem | Rejection`, or `(problem, session) -> Problem | Rejection` where it has to
run programs. The decision modules beside this one hold those functions; nothing here decides anything.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator

import apache_beam as beam

from beam_pipelines import sandbox_session, storage
from beam_pipelines.records import KEPT, REJECTED, Problem, Rejection, StageCount, rejection_of
from beam_pipelines.runners import progress
from sandbox.protocol import InvalidRequestError

Decision = Callable[..., Problem | Rejection]
# A bundle that a runner tries again repeats less than this for each stage of a problem.
CHECKPOINT_AFTER_S = 60.0


def with_spent(outcome: Problem | Rejection, stage: str, *, spent: sandbox_session.Spent) -> Problem | Rejection:
    """Add to an outcome's trace what the sandbox did for it, so that costs need no counters of a runner.

    Args:
      outcome: of the stage; a problem's last line of the trace is this stage's.
      stage: the stage's name.
      spent: by the sandbox for this problem in this stage.
    """
    notes = tuple(dataclasses.asdict(spent).items())
    if isinstance(outcome, Rejection):
        return dataclasses.replace(outcome, trace=(*outcome.trace, StageCount(stage, 0, 0, 0, notes)))
    *earlier, last = outcome.trace
    return dataclasses.replace(outcome, trace=(*earlier, dataclasses.replace(last, notes=last.notes + notes)))


class Stage(beam.PTransform):
    """A named transform: problems in; kept problems and, under the tag `rejected`, rejections out."""

    def __init__(self, name: str, decide: Decision, *, connection: sandbox_session.Connection | None = None) -> None:
        super().__init__(label=name)
        self._name = name
        self._decide = decide
        self._connection = connection

    @property
    def needs_sandbox(self) -> bool:
        """Whether the stage runs programs."""
        return self._connection is not None

    def expand(self, input_or_inputs: beam.PCollection):
        """Apply the decision to each problem; the result is indexed by `kept` and `rejected`."""
        step = _Apply(self._name, self._decide, self._connection)
        return input_or_inputs | f"decide {self._name}" >> beam.ParDo(step).with_outputs(REJECTED, main=KEPT)


class _Apply(beam.DoFn):
    """Applies a stage's decision to each problem, with counters, progress and checkpoints."""

    def __init__(self, name: str, decide: Decision, connection: sandbox_session.Connection | None) -> None:
        self._name = name
        self._decide = decide
        self._connection = connection
        self._kept = beam.metrics.Metrics.counter(name, KEPT)
        self._rejected = beam.metrics.Metrics.counter(name, REJECTED)

    def setup(self) -> None:
        self._session = sandbox_session.acquire_session(self._connection) if self._connection else None
        progress.PROGRESS.register(self._name)

    def process(self, problem: Problem) -> Iterator[Problem]:
        before = self._session.spent.executions if self._session else 0
        outcome = self._outcome(problem)
        is_kept = isinstance(outcome, Problem)
        executions = self._session.spent.executions - before if self._session else 0
        progress.PROGRESS.add(self._name, is_kept=is_kept, executions=executions)
        if is_kept:
            self._kept.inc()
            yield outcome
        else:
            self._rejected.inc()
            yield beam.pvalue.TaggedOutput(REJECTED, outcome)

    def _outcome(self, problem: Problem) -> Problem | Rejection:
        """Return what the stage decides, or what an earlier try decided that took long enough to be kept."""
        checkpoints = self._connection.checkpoints if self._connection and problem.key else ""
        if checkpoints and (kept := storage.read_checkpoint(problem, directory=checkpoints, stage=self._name)):
            return kept
        start = time.monotonic()
        outcome = self._decided(problem)
        if checkpoints and time.monotonic() - start >= CHECKPOINT_AFTER_S:
            storage.write_checkpoint(outcome, directory=checkpoints, stage=self._name)
        return outcome

    def _decided(self, problem: Problem) -> Problem | Rejection:
        if self._session is None:
            return self._decide(problem)
        before = self._session.spent
        try:
            outcome = self._decide(problem, self._session)
        except InvalidRequestError as error:
            # What the sandbox will not run, such as an unknown checker, is a fault of the record and not of the job.
            outcome = rejection_of(problem, self._name, reason="invalid_request", detail=str(error))
        return with_spent(outcome, self._name, spent=self._session.spent - before)

    def finish_bundle(self) -> None:
        progress.PROGRESS.finish(self._name)

    def teardown(self) -> None:
        if self._connection:
            sandbox_session.release_session(self._connection)
