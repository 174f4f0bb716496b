"""What solutions did on tests, as arrays: executions while a dataset is built, timings when it is finished. Pure.

Letters: `k` tests, `s` solutions, `h` correct solutions. Arrays keep a problem of 200 tests and 500 solutions at a few
megabytes and let filters look at all pairs at once.
"""

import dataclasses
import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax.kinds import STATUS_OF_VERDICT, Status
from sandbox.protocol import SERVICE_CAP_S, Verdict, estimate_s

VERDICTS = tuple(Verdict)
NOT_RUN = -1
# Indexed by verdict code; the last place answers for NOT_RUN.
_STATUS_OF_CODE = np.array([*(STATUS_OF_VERDICT[verdict] for verdict in VERDICTS), Status.NOT_RUN], np.int8)


@dataclasses.dataclass(frozen=True, eq=False)
class Matrices:
    """Base of records of equally shaped arrays whose rows are tests; two are equal if all their arrays are."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in dataclasses.fields(self)
        )

    __hash__ = None

    def take(self, kept: Sequence[int], *, axis: int) -> typing.Self:
        """Select tests or solutions.

        Args:
          kept: indices, in the order of the result.
          axis: 0 selects tests, 1 solutions.

        Returns:
          A copy that holds the selected rows or columns alone.
        """
        index = np.asarray(kept, int)
        return type(self)(*(np.take(getattr(self, field.name), index, axis) for field in dataclasses.fields(self)))


@dataclasses.dataclass(frozen=True, eq=False)
class Executions(Matrices):
    """Executions of solutions on tests while a dataset is built.

    Attributes:
      verdict: int8[k, s]; a place in VERDICTS, or NOT_RUN.
      wall_s: float32[k, s]; wall time of a run, seconds.
      std_s: float32[k, s]; its standard deviation, seconds.
      runs: int32[k, s]; how often the program ran.
    """

    verdict: np.ndarray
    wall_s: np.ndarray
    std_s: np.ndarray
    runs: np.ndarray

    @property
    def status(self) -> np.ndarray:
        """int8[k, s]: values of `optimrl_jax.kinds.Status`."""
        return _STATUS_OF_CODE[self.verdict]


@dataclasses.dataclass(frozen=True, eq=False)
class Timings(Matrices):
    """Durations of the correct solutions of a finished problem.

    Attributes:
      duration_s: float32[k, h]; seconds, the cap for a timeout, 0 where nothing ran.
      std_s: float32[k, h]; standard deviation of the measurements, seconds.
      runs: int32[k, h]; measurements behind each duration.
      status: int8[k, h]; values of `optimrl_jax.kinds.Status`.
    """

    duration_s: np.ndarray
    std_s: np.ndarray
    runs: np.ndarray
    status: np.ndarray


def not_run(tests: int, solutions: int) -> Executions:
    """Return executions [tests, solutions] of pairs that never ran."""
    shape = (tests, solutions)
    return Executions(
        verdict=np.full(shape, NOT_RUN, np.int8),
        wall_s=np.zeros(shape, np.float32),
        std_s=np.zeros(shape, np.float32),
        runs=np.zeros(shape, np.int32),
    )


def verdict_code(verdict: Verdict) -> int:
    """Return the place of a verdict in VERDICTS, which is how `Executions.verdict` stores it."""
    return VERDICTS.index(verdict)


def replace_columns(part: Executions, columns: Sequence[int], *, into: Executions) -> Executions:
    """Copy executions with the columns of some solutions replaced.

    Args:
      part: executions [k, n] of these solutions.
      columns: the n indices of the solutions in `into`, in the order of `part`.
      into: executions [k, s]; not changed.
    """
    changed = {}
    for field in dataclasses.fields(Executions):
        array = getattr(into, field.name).copy()
        array[:, list(columns)] = getattr(part, field.name)
        changed[field.name] = array
    return Executions(**changed)


def concatenate_tests(above: Executions, below: Executions) -> Executions:
    """Stack executions of the same solutions on two sets of tests: [k1, s] above [k2, s]."""
    names = [field.name for field in dataclasses.fields(Executions)]
    return Executions(**{name: np.concatenate([getattr(above, name), getattr(below, name)]) for name in names})


def expand_rows(part: Executions, rows: Sequence[int], *, tests: int) -> Executions:
    """Spread executions on some tests over all tests; the others count as not run.

    Args:
      part: executions [n, s].
      rows: the n indices of its tests.
      tests: number of all tests.
    """
    whole = not_run(tests, part.verdict.shape[1])
    for field in dataclasses.fields(Executions):
        getattr(whole, field.name)[list(rows)] = getattr(part, field.name)
    return whole


def combine_rounds(rounds: Sequence[Executions], *, cap_s: float = SERVICE_CAP_S) -> Timings:
    """Combine repeated executions of the same pairs into timings.

    The status of a pair is the one that most of its executions had (the smaller value of `Status` on a tie), its
    duration the estimate that candidates get too (`sandbox.protocol.estimate_s`), and its standard deviation theirs (of
    a single run: the instrument's own estimate). A pair that never ran has duration 0 and no runs.

    Args:
      rounds: at least one; executions [k, h] of the same tests and solutions; pairs that a round left out are not run.
      cap_s: limit of one execution in this build, seconds: what a timeout is stored as, and no success exceeds.
    """
    status = np.stack([one.status for one in rounds])
    votes = np.stack([(status == value).sum(axis=0) for value in Status if value is not Status.NOT_RUN])
    # A fault says nothing, so that one decided run outweighs any number of them.
    votes[Status.FAULT] = np.minimum(votes[Status.FAULT], ~votes[: Status.FAULT].any(axis=0))
    winner = np.where(votes.any(axis=0), votes.argmax(axis=0), Status.NOT_RUN).astype(np.int8)
    agrees = (status == winner) & (winner != Status.NOT_RUN)
    seconds = np.where(agrees, np.minimum(np.stack([one.wall_s for one in rounds]), cap_s), np.nan)
    count = agrees.sum(axis=0)
    is_timeout = winner == Status.TIMEOUT
    own_std_s = np.where(agrees, np.stack([one.std_s for one in rounds]), 0).sum(axis=0)
    std_s = np.where(count > 1, _deviation(seconds, count), own_std_s)
    return Timings(
        duration_s=np.where(is_timeout, cap_s, _estimates(seconds)).astype(np.float32),
        std_s=np.where(is_timeout, 0, std_s).astype(np.float32),
        runs=np.where(agrees, np.stack([one.runs for one in rounds]), 0).sum(axis=0).astype(np.int32),
        status=winner,
    )


def _estimates(seconds: np.ndarray) -> np.ndarray:
    """Estimate [k, h] from the runs of each pair, [n, k, h] with NaN for runs that do not count; 0 where none does."""
    found: np.ndarray = estimate_s(seconds, smaller=np.fmin)
    return np.where(np.isnan(found), 0, found)


def _deviation(seconds: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Sample standard deviation over the first axis, NaN left out; meaningful from two values on."""
    mean = np.nansum(seconds, axis=0) / np.maximum(count, 1)
    return np.sqrt(np.nansum((seconds - mean) ** 2, axis=0) / np.maximum(count - 1, 1))
