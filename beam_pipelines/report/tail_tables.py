"""How slow tests spread inside and over problems, and what a dataset holds in all (App. B.4, B.7 and B.8). Pure."""

from collections.abc import Sequence

import numpy as np

from beam_pipelines.report.dataset_statistics import (
    CATEGORIES,
    SLOW_SHARE,
    Example,
    Selection,
    characters,
    mean_seconds,
)
from optimrl_jax.kinds import Status, TestKind

THRESHOLDS_S = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0)
SLOWEST_SHARES = (0.1, 0.3, 0.5)
QUANTILES = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
KINDS = ("original", "correctness", "optimization")


def total_table(examples: Sequence[Example]) -> dict[str, float]:
    """Count problems, references, tests and durations (App. B.3, "From the cleaned corpus to the RL pool").

    Args:
      examples: problems of the dataset.

    Returns:
      `durations` counts recorded runs and timeouts, `timeouts` the latter alone.
    """
    usable = [np.isin(example["status"], (Status.SUCCESS, Status.TIMEOUT)) for example in examples]
    return {
        "problems": len(examples),
        "references": sum(one.shape[1] for one in usable),
        "tests": sum(one.shape[0] for one in usable),
        "durations": sum(int(one.sum()) for one in usable),
        "timeouts": sum(int((np.asarray(example["status"]) == Status.TIMEOUT).sum()) for example in examples),
    }


def size_table(examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Summarize the characters of input and expected output together (App. B.4, "Generation campaigns").

    Returns:
      Category -> tests, and median, 90th percentile and maximum of their characters; categories without tests are left
      out.
    """
    table = {}
    for name, select in CATEGORIES.items():
        sizes = [characters(example)[select(example)] for example in examples]
        pool = np.concatenate(sizes) if sizes else np.zeros(0)
        if pool.size:
            table[name] = {
                "tests": pool.size,
                "median": float(np.median(pool)),
                "p90": float(np.percentile(pool, 90)),
                "largest": float(pool.max()),
            }
    return table


def pool_characters(examples: Sequence[Example]) -> np.ndarray:
    """Collect the characters of input and expected output of all tests of all problems, as float[n]."""
    return np.concatenate([np.zeros(0), *map(characters, examples)])


def pool_executions(examples: Sequence[Example]) -> np.ndarray:
    """Collect the seconds of every reference on every test, timeouts as they are stored; float[n], the others left out.

    Unlike mean seconds of tests, these show the spread over programs too.
    """
    found = [
        np.asarray(example["duration_s"])[np.isin(example["status"], (Status.SUCCESS, Status.TIMEOUT))]
        for example in examples
    ]
    return np.concatenate([np.zeros(0), *found])


def execution_table(examples: Sequence[Example]) -> dict[str, float]:
    """Summarize the executions of a dataset: tests a problem, and the share of executions above thresholds (App. A).

    Returns:
      `problems`, `tests`, `tests_per_problem`, `executions`, `median_s` and `above_THRESHOLD_s`, shares in [0, 1]; the
      latter two are missing where nothing was executed.
    """
    seconds, tests = pool_executions(examples), pool_characters(examples).size
    table = {
        "problems": float(len(examples)),
        "tests": float(tests),
        "tests_per_problem": tests / max(1, len(examples)),
        "executions": float(seconds.size),
    }
    if seconds.size:
        table["median_s"] = float(np.median(seconds))
        table |= {f"above_{limit_s:g}_s": float((seconds > limit_s).mean()) for limit_s in THRESHOLDS_S}
    return table


def prevalence_table(examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Summarize slow tests over thresholds, every problem with the same weight (App. B.8, Figure 22).

    Returns:
      Kind and threshold -> the mean over problems of the share of tests above it, the share of problems with at least
      one such test, and the share with at least a tenth of them; in [0, 1].
    """
    table = {}
    for kind in KINDS:
        suites = _suites(examples, CATEGORIES[kind])
        if not suites:
            continue
        for threshold_s in THRESHOLDS_S:
            shares = np.array([(seconds > threshold_s).mean() for seconds in suites])
            table[f"{kind} > {threshold_s:g} s"] = {
                "tests_share": float(shares.mean()),
                "problems_with_any": float((shares > 0).mean()),
                "problems_with_a_tenth": float((shares >= SLOW_SHARE).mean()),
            }
    return table


def quantile_table(examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Take the median over problems of their own median, p90, p99 and largest duration (App. B.8, Figure 23).

    Returns:
      Kind -> quantile -> seconds; kinds without tests are left out.
    """
    return {
        kind: {name: float(np.median(values)) for name, values in per_problem_quantiles(examples, kind).items()}
        for kind in KINDS
        if _suites(examples, CATEGORIES[kind])
    }


def per_problem_quantiles(examples: Sequence[Example], kind: str) -> dict[str, np.ndarray]:
    """Return quantiles of the durations of every problem that has tests of the kind.

    Args:
      examples: problems of the dataset.
      kind: one of KINDS.

    Returns:
      Quantile -> float[b] for the b problems, seconds.
    """
    suites = _suites(examples, CATEGORIES[kind])
    return {name: np.array([np.percentile(one, percent) for one in suites]) for name, percent in QUANTILES.items()}


def cumulative_table(examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Average the share of a suite's duration that its slowest tests take (App. B.7, Figure 20).

    Returns:
      Kind -> `slowest_SHARE` -> mean over problems, in [0, 1]; kinds without durations are left out.
    """
    table = {}
    for kind in KINDS:
        suites = [one for one in _suites(examples, CATEGORIES[kind]) if one.sum() > 0]
        if suites:
            table[kind] = {
                f"slowest_{share:.0%}": float(np.mean([slowest_share(one, share) for one in suites]))
                for share in SLOWEST_SHARES
            }
    return table


def slowest_share(seconds: np.ndarray, share: float) -> float:
    """Return the share of a total that the slowest ceil(share x tests) tests take.

    Args:
      seconds: float[k].
      share: of the tests, in [0, 1].

    Returns:
      A number in [0, 1]; 0 for a total of 0.
    """
    # A product that rounding lifts just above a whole number must not take one more test.
    count = int(np.ceil(share * len(seconds) - 1e-9))
    return float(np.sort(seconds)[::-1][:count].sum() / seconds.sum()) if seconds.sum() > 0 else 0.0


def best_humans(examples: Sequence[Example]) -> dict[str, dict[str, str | float]]:
    """Find for each problem the reference with the least mean duration over all optimization tests.

    Sec. 5, distance to the best human. Only references that succeed on every optimization test are compared; problems
    without one are left out.

    Args:
      examples: problems of the dataset.

    Returns:
      Problem id -> id of the `reference` and its mean, `mean_s`, in seconds.
    """
    best: dict[str, dict[str, str | float]] = {}
    for example in examples:
        rows = np.asarray(example["test_kind"]) == TestKind.OPTIMIZATION
        seconds, status = np.asarray(example["duration_s"])[rows], np.asarray(example["status"])[rows]
        succeeds = (status == Status.SUCCESS).all(axis=0)
        if rows.any() and succeeds.any():
            means = np.where(succeeds, seconds.mean(axis=0), np.inf)
            h = int(means.argmin())
            best[_name(example["id"])] = {"reference": _name(example["reference_id"][h]), "mean_s": float(means[h])}
    return best


def _suites(examples: Sequence[Example], select: Selection) -> list[np.ndarray]:
    """Return the finite mean seconds of the selected tests of each problem that has any."""
    suites = [mean_seconds(example)[select(example)] for example in examples]
    return [known for seconds in suites if (known := seconds[np.isfinite(seconds)]).size]


def _name(text: object) -> str:
    return text.decode() if isinstance(text, bytes) else str(text)
