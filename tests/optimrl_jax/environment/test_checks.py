"""Arrays that cannot be judged are refused in one line that says where and why."""

import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.arrays import Execution, References, Status, Tests

K, H, R = 3, 2, 2


def arrays():
    return {
        "tests": Tests(np.array([0, 2, 2]), np.array([5, 5, 5]), np.array([True, True, False])),
        "references": References(
            np.full((K, H), 0.5), np.zeros((K, H)), np.array([[True, True], [True, False], [False, False]])
        ),
        "execution": Execution(
            np.tile([Status.SUCCESS, Status.FAILURE, Status.NOT_RUN], (R, 1)), np.full((R, K), 0.25)
        ),
    }


def broken(part, field, change):
    found = arrays()
    values = np.array(getattr(found[part], field))
    found[part] = found[part]._replace(**{field: change(values)})
    return found


def put(index, value):
    def change(values):
        values[index] = value
        return values

    return change


def test_sound_arrays_pass_with_and_without_an_execution():
    found = arrays()
    assert environment.check(**found) is None
    assert environment.check(found["tests"], found["references"]) is None


@pytest.mark.parametrize(
    ("part", "field", "change", "message"),
    [
        ("references", "duration_s", put((0, 1), np.nan), "references.duration_s[0, 1] = nan: expected a finite"),
        ("references", "duration_s", put((1, 0), -0.5), "references.duration_s[1, 0] = -0.5: expected seconds that"),
        ("references", "duration_s", put((0, 0), 12.0), "references.duration_s[0, 0] = 12.0: expected at most the cap"),
        ("references", "std_s", put((0, 0), -1.0), "references.std_s[0, 0] = -1.0"),
        ("references", "is_usable", put((2, 0), True), "references.is_usable[2, 0] = True: expected usable cells on"),
        ("references", "is_usable", lambda v: v[:2], "references.is_usable of shape (2, 2): expected (3, 2)"),
        ("references", "is_usable", lambda v: v.astype(int), "references.is_usable of type int64: expected bool"),
        ("references", "duration_s", lambda v: v[0], "references.duration_s of shape (2,): expected 2 axes"),
        ("tests", "mask", lambda v: v[:1], "tests.mask of shape (1,): expected (3,)"),
        ("tests", "kind", put(1, 7), "tests.kind[1] = 7: expected one of 0 original"),
        ("tests", "characters", put(0, -1), "tests.characters[0] = -1"),
        ("execution", "status", put((0, 1), 9), "execution.status[0, 1] = 9: expected one of 0 success"),
        ("execution", "status", put((1, 2), 0), "execution.status[1, 2] = 0: expected 4 outside tests.mask"),
        ("execution", "status", lambda v: v[:, :2], "execution.duration_s of shape (2, 3): expected (2, 2)"),
        ("execution", "duration_s", put((1, 1), np.inf), "execution.duration_s[1, 1] = inf: expected a finite"),
        ("execution", "duration_s", put((1, 0), 11.0), "execution.duration_s[1, 0] = 11.0"),
    ],
)
def test_broken_arrays_are_refused(part, field, change, message):
    with pytest.raises(ValueError) as caught:
        environment.check(**broken(part, field, change))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_missing_seconds_are_fine_where_nothing_was_run():
    found = broken("references", "duration_s", put((2, 1), np.nan))
    assert environment.check(**found) is None


@pytest.mark.parametrize("tau", [-1, 0, 101, float("nan")])
def test_a_tau_out_of_range_is_refused(tau):
    with pytest.raises(ValueError, match="expected a percentile in"):
        environment.check_tau(tau)
    assert environment.check_tau(30) == 30
