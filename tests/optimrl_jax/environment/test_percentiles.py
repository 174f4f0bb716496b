"""A percentile that falls on a value is that value, bit for bit, in NumPy and compiled alike."""

import jax
import numpy as np
import pytest

from optimrl_jax.environment.calibration import percentile

COUNTS = np.arange(1, 400, dtype=np.int32)
# Irregular, so that no neighbour is a multiple of a reference.
ROWS_S = np.sort(np.random.default_rng(3).uniform(1e-3, 9.0, (len(COUNTS), COUNTS[-1])).astype(np.float32), axis=-1)


@pytest.mark.parametrize("compute", [percentile, jax.jit(percentile)], ids=["numpy", "compiled"])
@pytest.mark.parametrize("percent", [0.0, 2.5, 5.0, 10.0, 30.0, 33.3, 50.0, 70.0, 95.0, 100.0])
def test_percentiles_on_a_value_are_that_value(compute, percent):
    found_s = np.asarray(compute(ROWS_S, COUNTS, np.float32(percent)))
    # In thousandths of a percent, where whole numbers stay whole.
    position, rest = np.divmod(round(1000 * percent) * (COUNTS.astype(np.int64) - 1), 100_000)
    on_value = rest == 0
    assert on_value.any()
    rows = np.flatnonzero(on_value)
    np.testing.assert_array_equal(found_s[rows], ROWS_S[rows, position[rows]])
    between = np.flatnonzero(~on_value)
    low_s, high_s = ROWS_S[between, position[between]], ROWS_S[between, position[between] + 1]
    assert ((low_s < found_s[between]) & (found_s[between] < high_s)).all()


def test_a_program_with_the_seconds_of_its_limit_meets_it_by_either_arithmetic():
    percents = np.float32(np.arange(5, 100, 5))[:, None]
    numpy_s = percentile(ROWS_S[None], COUNTS[None], percents)
    compiled_s = np.asarray(jax.jit(percentile)(ROWS_S[None], COUNTS[None], percents))
    np.testing.assert_array_equal(ROWS_S[None] <= numpy_s[..., None], ROWS_S[None] <= compiled_s[..., None])
