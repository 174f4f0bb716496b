"""Where each human reference stands on the leaderboard of its own problem (App. D, exact QP ranking).

A reference is judged like a policy's program that did exactly what was recorded for it, against the whole pool, itself
included; the tie rule then gives it its own position.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from beam_pipelines.report.dataset_statistics import Example, characters
from optimrl_jax import environment
from optimrl_jax.arrays import Execution, References, Status, TestKind, Tests
from optimrl_jax.environment.padding import pad_array, padded_size


def reference_percentiles(example: Example) -> np.ndarray:
    """Rank each reference on its problem's leaderboard.

    Args:
      example: a row of the dataset, whole or condensed.

    Returns:
      float[h] in [0, 1], 0 the fastest; NaN for a reference that no optimization test ranks.
    """
    status, duration_s = np.asarray(example["status"]), np.asarray(example["duration_s"], np.float32)
    k, h = status.shape
    shape = (padded_size(k), padded_size(h))
    is_usable = np.isin(status, (Status.SUCCESS, Status.TIMEOUT))
    tests = Tests(
        kind=_padded(example["test_kind"], shape[:1]),
        characters=_padded(characters(example).astype(np.int32), shape[:1]),
        mask=_padded(np.ones(k, bool), shape[:1]),
    )
    references = References(
        duration_s=_padded(duration_s, shape),
        std_s=_padded(np.asarray(example["std_s"], np.float32), shape),
        is_usable=_padded(is_usable, shape),
    )
    execution = Execution(status=_padded(status, shape).T, duration_s=_padded(duration_s, shape).T)
    position = np.array(_judge(tests, references, execution))[:h]
    position[~is_usable[np.asarray(example["test_kind"]) == TestKind.OPTIMIZATION].any(axis=0)] = np.nan
    return position


def _padded(values: np.ndarray, shape: tuple[int, ...]) -> jax.Array:
    return jnp.asarray(pad_array(np.asarray(values), shape))


@functools.cache
def _environment() -> environment.Environment:
    return environment.build("qp_ranked")


@jax.jit
def _judge(tests: Tests, references: References, execution: Execution) -> jax.Array:
    return environment.judge(_environment(), tests, references, execution).q
