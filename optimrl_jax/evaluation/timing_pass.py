"""Edge: gives every timing pass an identity, so that seconds of two passes never stand beside each other.

A pass is one stretch of executions that are compared with one another: all policies and references of an evaluation, or
all programs of a judging job, shuffled together (sec. 5, "Replayed evaluation"). Its answers lie in a store of its own,
sampled programs beside it. A pass that was killed goes on where it was; a finished one leaves nothing of this behind,
and the next one times everything anew: the service may be in another state by then (App. C.11, "Lessons learned").
"""

import dataclasses
import datetime
import json
import logging
import pathlib
import uuid

from optimrl_jax.jobs import files

_LOG = logging.getLogger(__name__)
FILE = "pass.json"


@dataclasses.dataclass(frozen=True)
class TimingPass:
    """One timing pass of a job.

    Attributes:
      id: names it in records.
      begun: UTC time at which it began, ISO 8601.
      question: hash of what it times; a pass is resumed only under the same question.
      directory: that holds its store.
    """

    id: str
    begun: str
    question: str
    directory: pathlib.Path

    @property
    def store(self) -> str:
        """Path of the file that keeps the answers of this pass."""
        return str(self.directory / f"pass-{self.id}.sqlite")

    def samples(self, policy: str) -> pathlib.Path:
        """Return the path of the file that keeps what a policy sampled for this pass."""
        return self.directory / f"pass-{self.id}-{policy}.json"


def enter_pass(directory: pathlib.Path, question: str) -> TimingPass:
    """Resume the unfinished pass of this question, or begin a new one.

    An unfinished pass of another question is dropped with its answers: they are of other programs, tests or settings.

    Args:
      directory: of the job; holds the pass while it is unfinished.
      question: hash of what is timed.
    """
    unfinished = _read(directory)
    if unfinished and unfinished.question == question:
        _LOG.info("going on with the timing pass that began at %s", unfinished.begun)
        return unfinished
    if unfinished:
        _LOG.info("the unfinished timing pass of %s asked something else: a new one begins", unfinished.begun)
        finish_pass(unfinished)
    begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    timing_pass = TimingPass(uuid.uuid4().hex[:12], begun, question, directory)
    files.write_json(directory / FILE, {"id": timing_pass.id, "begun": begun, "question": question})
    return timing_pass


def finish_pass(timing_pass: TimingPass) -> None:
    """Remove what a pass kept, once its results are written."""
    for path in timing_pass.directory.glob(f"pass-{timing_pass.id}[.-]*"):
        path.unlink()
    (timing_pass.directory / FILE).unlink(missing_ok=True)


def _read(directory: pathlib.Path) -> TimingPass | None:
    try:
        values = json.loads((directory / FILE).read_text())
        return TimingPass(values["id"], values["begun"], values["question"], directory)
    except (OSError, ValueError, KeyError, TypeError):
        return None
