"""What `python -m sandbox.calibrate` measures again: programs of a dataset with their stored seconds (App. C.7). Pure.

Each line names a problem and one of its references, with the inputs of tests on which the reference succeeded and
their stored seconds. References are spread evenly over the speeds of the problem, and tests over their durations, so
that the fit sees the whole range of seconds.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from optimrl_jax.kinds import Status, TestKind


def campaign_lines(example: Mapping[str, Any], *, references: int, tests: int) -> list[dict[str, Any]]:
    """Choose what a campaign measures of one problem.

    Args:
      example: a problem as the dataset stores it, with its texts as bytes.
      references: programs, at most.
      tests: tests of each program, at most; optimization tests where the problem has any, else all kinds.

    Returns:
      One {"problem", "program", "inputs", "stored_s"} for each chosen reference that has a stored success.
    """
    kinds, stored_s = np.asarray(example["test_kind"]), np.asarray(example["duration_s"])
    is_optimization = kinds == TestKind.OPTIMIZATION
    is_kind = is_optimization if is_optimization.any() else np.ones(len(kinds), bool)
    succeeded = (np.asarray(example["status"]) == Status.SUCCESS) & (stored_s > 0) & is_kind[:, None]
    timed = [reference for reference in range(succeeded.shape[1]) if succeeded[:, reference].any()]
    timed.sort(key=lambda reference: float(stored_s[succeeded[:, reference], reference].mean()))
    lines = []
    for reference in _spread(timed, references):
        places = sorted(np.flatnonzero(succeeded[:, reference]), key=lambda test: float(stored_s[test, reference]))
        chosen = _spread(places, tests)
        lines.append(
            {
                "problem": example["id"].decode(),
                "program": example["reference_program"][reference].decode(),
                "inputs": [example["test_input"][test].decode() for test in chosen],
                "stored_s": [float(stored_s[test, reference]) for test in chosen],
            }
        )
    return lines


def _spread(ordered: list, most: int) -> list:
    """Take at most so many members, evenly over an order, its ends included."""
    if len(ordered) <= most:
        return ordered
    return [ordered[place] for place in np.linspace(0, len(ordered) - 1, most).round().astype(int)]
