"""What a dataset looks like: filterability, durations and their tails. Pure: from examples to tables.

An example is a row of the dataset as TFDS gives it. All tables use a test's mean seconds over references, in which a
timeout counts 10 s (App. B.7), so that every problem weighs by its tests and not by its number of solutions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from beam_pipelines.stages.filterability import MIN_LENGTH_R, pearson, robust_cv, usable_mean
from optimrl_jax.kinds import TestKind

Example = Mapping[str, Any]
Selection = Callable[[Example], np.ndarray]

BULK = ("statement", "test_input", "test_output", "reference_program", "incorrect_program")
SLOW_S = 1.0
VERY_SLOW_S = 3.0
SLOW_SHARE = 0.1
# What the paper's service reports for the shortest runs (App. B.8, Table 22: pooled median of original tests).
PAPER_BASE_S = 0.065


def _of_kind(kind: TestKind) -> Selection:
    return lambda example: np.asarray(example["test_kind"]) == kind


def _of_origin(origin: str) -> Selection:
    return lambda example: np.array([text == origin.encode() for text in example["test_origin"]], bool)


CATEGORIES: dict[str, Selection] = {
    "public": _of_origin("public"),
    "private": _of_origin("private"),
    "generated": _of_origin("generated"),
    "original": _of_kind(TestKind.ORIGINAL),
    "correctness": _of_kind(TestKind.ADDED),
    "optimization": _of_kind(TestKind.OPTIMIZATION),
}


def mean_seconds(example: Example) -> np.ndarray:
    """Return the mean duration of each test over references with a recorded run or timeout.

    Args:
      example: a row of the dataset, whole or condensed.

    Returns:
      float[k]; seconds, NaN where there is none.
    """
    return usable_mean(np.asarray(example["duration_s"]), np.asarray(example["status"]))


def condense(example: Example) -> Example:
    """Strip an example of its long texts, and add the number of characters of each test.

    A dataset of the paper's size does not fit into memory; what the tables need of it does.
    """
    return {name: value for name, value in example.items() if name not in BULK} | {"characters": characters(example)}


def characters(example: Example) -> np.ndarray:
    """Count the Unicode characters of input and expected output together, as float[k].

    Of a condensed example, the count that it carries.
    """
    if "characters" in example:
        return example["characters"]
    texts = zip(example["test_input"], example["test_output"], strict=True)
    return np.array([len(_text(given)) + len(_text(wanted)) for given, wanted in texts], float)


def filterability_table(
    examples: Sequence[Example], *, min_robust_cv: float = 0.3, base_s: float = 0.0
) -> dict[str, dict[str, int]]:
    """Count problems that are duration (D) and length (L) filterable on each category of tests (App. B.7, Table 20).

    Args:
      examples: problems of the dataset.
      min_robust_cv: robust CV from which a problem is duration-filterable.
      base_s: added to every duration, seconds. Our instrument times a program alone, where noise of a fraction of a
        millisecond spreads tests of two milliseconds, while the paper's service reports 65 ms for the shortest run.

    Returns:
      Category -> `problems` with at least two tests of it, and how many of these are filterable by `duration`,
      `length`, `both` and `neither`.
    """
    table = {}
    for name, select in CATEGORIES.items():
        chosen = [(example, select(example)) for example in examples if select(example).sum() > 1]
        sides = [_sides(*one, min_robust_cv=min_robust_cv, base_s=base_s) for one in chosen]
        table[name] = {
            "problems": len(sides),
            "duration": sum(d for d, _ in sides),
            "length": sum(r for _, r in sides),
            "both": sum(d and r for d, r in sides),
            "neither": sum(not d and not r for d, r in sides),
        }
    return table


def duration_table(examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Summarize the pooled durations of each category of tests (App. B.8, Table 21).

    Args:
      examples: problems of the dataset, whole or condensed.

    Returns:
      Category -> number of tests, mean and percentiles in seconds, and the share, in [0, 1], above 1 s; categories
      without tests are left out.
    """
    table = {}
    for name, select in CATEGORIES.items():
        seconds = pool_seconds(examples, select)
        if seconds.size:
            p50, p90, p95, p99 = np.percentile(seconds, [50, 90, 95, 99])
            table[name] = {
                "tests": int(seconds.size),
                "mean_s": float(seconds.mean()),
                "median_s": float(p50),
                "p90_s": float(p90),
                "p95_s": float(p95),
                "p99_s": float(p99),
                "slow_share": float((seconds > SLOW_S).mean()),
            }
    return table


def tail_table(examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Summarize how slow tests spread over problems, by category of tests (App. B.8, Table 22).

    Args:
      examples: problems of the dataset, whole or condensed.

    Returns:
      Category -> problems with such tests, `p99_over_median` (median over problems), and the shares, in [0, 1], of slow
      problems (at least a tenth of their tests above 1 s) and very slow ones (any test above 3 s).
    """
    table = {}
    for name, select in CATEGORIES.items():
        suites = [seconds for seconds in (_finite(example, select) for example in examples) if seconds.size]
        if suites:
            ratios = [np.percentile(s, 99) / np.median(s) for s in suites if np.median(s) > 0]
            table[name] = {
                "problems": len(suites),
                "p99_over_median": float(np.median(ratios)) if ratios else 0.0,
                "slow_problems_share": float(np.mean([(s > SLOW_S).mean() >= SLOW_SHARE for s in suites])),
                "very_slow_problems_share": float(np.mean([(s > VERY_SLOW_S).any() for s in suites])),
            }
    return table


def pool_seconds(examples: Sequence[Example], select: Selection) -> np.ndarray:
    """Collect the mean seconds of all selected tests of all problems in one array, without NaN.

    Args:
      examples: problems of the dataset, whole or condensed.
      select: gives bool[k] for an example, as the values of CATEGORIES do.

    Returns:
      float[n]; empty without examples.
    """
    suites = [_finite(example, select) for example in examples]
    return np.concatenate(suites) if suites else np.zeros(0)


def _finite(example: Example, select: Selection) -> np.ndarray:
    seconds = mean_seconds(example)[select(example)]
    return seconds[np.isfinite(seconds)]


def _sides(example: Example, is_selected: np.ndarray, *, min_robust_cv: float, base_s: float) -> tuple[bool, bool]:
    seconds = mean_seconds(example)[is_selected] + base_s
    r = pearson(characters(example)[is_selected], seconds)
    return robust_cv(seconds) >= min_robust_cv, r >= MIN_LENGTH_R


def _text(value: object) -> str:
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else str(value)
