"""Says in one line what is wrong with arrays from outside, before they are judged. Plain NumPy; changes nothing."""

from collections.abc import Iterable

import numpy as np

from optimrl_jax.arrays import CAP_S, Array, Execution, References, Status, TestKind, Tests

# A run that is stopped at the cap reports it with the clock's own excess.
SLACK_S = 0.5


def check(tests: Tests, references: References, execution: Execution | None = None) -> None:
    """Check arrays before they are judged.

    Durations must be finite, not negative and at most the cap of 10 s (with 0.5 s of slack) wherever they count: in
    usable cells and executed tests; missing ones may be 0. Having no references, a single one, or only tied ones is
    fine: the ranking is then neutral, has one position, or puts every tied candidate first.

    Args:
      tests: `[k]`.
      references: `[k, h]`.
      execution: `[r, k]`; None checks the problem alone.

    Raises:
      ValueError: naming the array, the first offending value and what was expected.
    """
    tests, references = Tests(*_as_numpy(tests)), References(*_as_numpy(references))
    k, h = _shape("references.duration_s", references.duration_s, axes=2)
    for name, values in {"kind": tests.kind, "characters": tests.characters, "mask": tests.mask}.items():
        _expect_shape(f"tests.{name}", values, (k,))
    for name, values in {"std_s": references.std_s, "is_usable": references.is_usable}.items():
        _expect_shape(f"references.{name}", values, (k, h))
    _expect_bool("tests.mask", tests.mask)
    _expect_bool("references.is_usable", references.is_usable)
    _expect_code("tests.kind", tests.kind, TestKind)
    _expect("tests.characters", tests.characters, tests.characters >= 0, "a number that is not negative")
    usable = references.is_usable
    _expect("references.is_usable", usable, ~usable | tests.mask[:, None], "usable cells on existing tests only")
    _expect_seconds("references.duration_s", references.duration_s, usable)
    _expect_seconds("references.std_s", references.std_s, usable)
    if execution is not None:
        _check_execution(Execution(*_as_numpy(execution)), tests)


def check_tau(tau: float) -> float:
    """Return the percentile of p_tau unchanged.

    Args:
      tau: percent; 100 asks for correctness alone.

    Raises:
      ValueError: outside (0, 100].
    """
    if not 0 < tau <= 100:
        raise ValueError(f"tau = {tau!r}: expected a percentile in (0, 100]")
    return tau


def _check_execution(execution: Execution, tests: Tests) -> None:
    shape = _shape("execution.status", execution.status, axes=2)
    _expect_shape("execution.duration_s", execution.duration_s, shape)
    _expect_shape("execution.status", execution.status, (shape[0], tests.mask.shape[0]))
    _expect_code("execution.status", execution.status, Status)
    was_run = np.isin(execution.status, (Status.SUCCESS, Status.TIMEOUT, Status.FAILURE))
    _expect("execution.status", execution.status, ~was_run | tests.mask, f"{Status.NOT_RUN:d} outside tests.mask")
    _expect_seconds("execution.duration_s", execution.duration_s, was_run)


def _as_numpy(part: Iterable[Array]) -> list[np.ndarray]:
    return [np.asarray(values) for values in part]


def _shape(name: str, values: Array, *, axes: int) -> tuple[int, ...]:
    if values.ndim != axes:
        raise ValueError(f"{name} of shape {values.shape}: expected {axes} axes")
    return values.shape


def _expect_shape(name: str, values: Array, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise ValueError(f"{name} of shape {values.shape}: expected {shape}")


def _expect_bool(name: str, values: Array) -> None:
    if values.dtype != bool:
        raise ValueError(f"{name} of type {values.dtype}: expected bool")


def _expect_code(name: str, values: Array, codes: type[TestKind] | type[Status]) -> None:
    meaning = ", ".join(f"{code:d} {code.name.lower()}" for code in codes)
    _expect(name, values, np.isin(values, list(codes)), f"one of {meaning}")


def _expect_seconds(name: str, values: Array, counts: Array) -> None:
    _expect(name, values, ~counts | np.isfinite(values), "a finite number of seconds")
    _expect(name, values, ~counts | (values >= 0), "seconds that are not negative")
    _expect(name, values, ~counts | (values <= CAP_S + SLACK_S), f"at most the cap of {CAP_S:g} s")


def _expect(name: str, values: Array, is_fine: Array, expected: str) -> None:
    is_fine = np.broadcast_to(is_fine, values.shape)
    if not is_fine.all():
        where = np.unravel_index(np.argmin(is_fine), values.shape)
        index = ", ".join(str(int(place)) for place in where)
        raise ValueError(f"{name}[{index}] = {values[where].item()!r}: expected {expected}")
