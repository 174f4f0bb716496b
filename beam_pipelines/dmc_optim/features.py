"""One problem as a flat DMC-Optim example: names, shapes and types, and how a record becomes one.

Letters as in `optimrl_jax.arrays`: k tests, h references; i incorrect programs.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from beam_pipelines.records import Problem
from optimrl_jax.kinds import TestKind


def example_features() -> tfds.features.FeaturesDict:
    """Return the features of an example: names, shapes, types and meanings.

    Matrices are zlib-encoded because a tensor with two unknown dimensions cannot be stored otherwise.
    """
    texts = tfds.features.Tensor(shape=(None,), dtype=np.str_)
    return tfds.features.FeaturesDict(
        {
            "id": tfds.features.Text(doc="source and name, unique in the dataset"),
            "source": tfds.features.Text(),
            "category": tfds.features.Text(doc="stratum of the split"),
            "tags": tfds.features.Tensor(shape=(None,), dtype=np.str_, doc="what the source says it is about"),
            "statement": tfds.features.Text(),
            "difficulty": tfds.features.Scalar(np.int32),
            "rating": tfds.features.Scalar(np.int32),
            "time_limit_s": tfds.features.Scalar(np.float32),
            "memory_limit_bytes": tfds.features.Scalar(np.int64),
            "checker": tfds.features.Text(doc="name of the comparison of outputs, or JSON of a judging program"),
            "test_kind": tfds.features.Tensor(shape=(None,), dtype=np.int8, doc="optimrl_jax.kinds.TestKind"),
            "test_origin": texts,
            "test_input": texts,
            "test_output": texts,
            "reference_id": texts,
            "reference_program": texts,
            "reference_speed_class": texts,
            "incorrect_program": texts,
            "duration_s": _matrix(np.float32, "seconds of each (test, reference); 10 for a timeout"),
            "std_s": _matrix(np.float32, "standard deviation of the measurements, seconds"),
            "runs": _matrix(np.int32, "measurements behind each duration"),
            "status": _matrix(np.int8, "optimrl_jax.kinds.Status"),
            "measured_under": tfds.features.Text(doc="JSON: service, backend, image, host, calibration"),
            "robust_cv": tfds.features.Scalar(np.float32, doc="IQR / median of mean durations of optimization tests"),
            "length_r": tfds.features.Scalar(np.float32, doc="correlation of characters and duration of those"),
        }
    )


def example_of(problem: Problem, *, has_incorrect: bool = True) -> dict[str, object]:
    """Convert a finished problem into an example; references are its surviving correct solutions in stored order.

    Args:
      problem: a problem with timings.
      has_incorrect: whether the incorrect programs stay; they are no training data.

    Returns:
      A value for every name of `example_features`.

    Raises:
      ValueError: the problem has no timings.
    """
    return {
        "id": problem.id,
        "source": problem.source,
        "category": problem.category,
        "tags": _texts(list(problem.tags)),
        "statement": problem.statement,
        "difficulty": problem.difficulty,
        "rating": problem.rating,
        "time_limit_s": problem.time_limit_s,
        "memory_limit_bytes": problem.memory_limit_bytes,
        "checker": problem.checker,
        "test_kind": np.array([test.kind for test in problem.tests], np.int8),
        "test_origin": _texts([test.origin for test in problem.tests]),
        "test_input": _texts([test.input for test in problem.tests]),
        "test_output": _texts([test.output or "" for test in problem.tests]),
        "reference_id": _texts([one.id for one in problem.correct]),
        "reference_program": _texts([one.program for one in problem.correct]),
        "reference_speed_class": _texts([one.speed_class for one in problem.correct]),
        "incorrect_program": _texts([one.program for one in problem.incorrect if has_incorrect]),
        "duration_s": problem.timed.duration_s,
        "std_s": problem.timed.std_s,
        "runs": problem.timed.runs,
        "status": problem.timed.status,
        "measured_under": json.dumps(dict(problem.measured_under), sort_keys=True),
        "robust_cv": np.float32(problem.robust_cv),
        "length_r": np.float32(problem.length_r),
    }


def light_example(example: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce an example to one solution of each label and no optimization tests.

    App. B.6, "Corpus variants used in our experiments": for work on code that reads the dataset, not for training.

    Args:
      example: a value for every name of `example_features`; not changed.
    """
    kept = np.flatnonzero(np.asarray(example["test_kind"]) != TestKind.OPTIMIZATION)
    light = dict(example)
    for name in ("test_kind", "test_origin", "test_input", "test_output"):
        light[name] = np.asarray(example[name])[kept]
    for name in ("reference_id", "reference_program", "reference_speed_class", "incorrect_program"):
        light[name] = np.asarray(example[name])[:1]
    for name in ("duration_s", "std_s", "runs", "status"):
        light[name] = np.asarray(example[name])[kept][:, :1]
    return light


def _matrix(dtype: type, doc: str) -> tfds.features.Tensor:
    return tfds.features.Tensor(shape=(None, None), dtype=dtype, encoding="zlib", doc=doc)


def _texts(values: list[str]) -> np.ndarray:
    return np.array(values, dtype=object)
