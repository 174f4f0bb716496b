"""What several timing passes of the same programs say about the instrument (App. C.2, C.7, C.8). Pure NumPy.

Cells are seconds of one program on one optimization test; nan where it did not succeed. Every statistic says what it
takes: cells of all passes, or places among the references of one pass.
"""

import typing
from collections.abc import Sequence

import numpy as np

FEWEST_TESTS = 2


class Coverage(typing.NamedTuple):
    """How much of a timing matrix a pass filled.

    Attributes:
      success_percent: cells that succeeded, of those that ran.
      coverage_percent: cells with seconds, of all cells.
      lowest_percent: the same of the problem that has the least.
      cells: of all problems.
    """

    success_percent: float
    coverage_percent: float
    lowest_percent: float
    cells: int


def coverage(seconds: Sequence[np.ndarray], has_run: Sequence[np.ndarray]) -> Coverage:
    """Count the cells that a pass filled (App. C.2, "Local sandbox distorts execution results and lowers coverage").

    Args:
      seconds: `[k, h]` of each problem, nan where there are none.
      has_run: `[k, h]` of each problem, cells that were executed.
    """
    known = np.array([np.isfinite(own).sum() for own in seconds])
    ran, cells = np.array([own.sum() for own in has_run]), np.array([own.size for own in seconds])
    if not cells.sum():
        return Coverage(float("nan"), float("nan"), float("nan"), 0)
    lowest = (known[cells > 0] / cells[cells > 0]).min()
    return Coverage(
        100 * float(known.sum() / max(1, ran.sum())),
        100 * float(known.sum() / cells.sum()),
        100 * float(lowest),
        int(cells.sum()),
    )


class Spread(typing.NamedTuple):
    """A statistic over many things.

    Attributes:
      mean: average.
      median: middle.
      p5: 5th percentile.
      p95: 95th percentile.
      n: number of things.
    """

    mean: float
    median: float
    p5: float
    p95: float
    n: int


def spread_of(values: np.ndarray) -> Spread:
    """Describe the finite values; nan where there are none."""
    finite = np.asarray(values, float)[np.isfinite(values)]
    if not finite.size:
        return Spread(*(float("nan"),) * 4, 0)
    low, middle, high = np.percentile(finite, (5, 50, 95))
    return Spread(float(finite.mean()), float(middle), float(low), float(high), finite.size)


class Noise(typing.NamedTuple):
    """How repeated measurements of one cell scatter, `[cells]` each (Table 31).

    Attributes:
      cv: standard deviation over passes / mean, without unit.
      std_s: standard deviation over passes, seconds.
      mean_s: mean over passes, seconds.
    """

    cv: np.ndarray
    std_s: np.ndarray
    mean_s: np.ndarray


def short_run_noise(cells_s: np.ndarray) -> Noise:
    """Measure the scatter of cells over passes, with n - 1 in the denominator.

    Args:
      cells_s: `[passes, cells]` seconds; cells that a pass lacks are left out.
    """
    known = cells_s[:, np.isfinite(cells_s).all(axis=0)]
    mean_s, std_s = known.mean(axis=0), known.std(axis=0, ddof=1)
    return Noise(np.divide(std_s, mean_s, out=np.full_like(std_s, np.nan), where=mean_s > 0), std_s, mean_s)


class Variance(typing.NamedTuple):
    """Where the variance of seconds comes from, seconds squared (App. C.7, "Variance decomposition").

    Attributes:
      between: of the means of cells: programs and tests differ.
      within: mean variance of a cell over passes: the instrument differs from itself.
      total: of all measurements; the sum of both.
    """

    between: float
    within: float
    total: float


def variance_decomposition(cells_s: np.ndarray) -> Variance:
    """Split the variance of repeated measurements into that between cells and that within them.

    Args:
      cells_s: `[passes, cells]` seconds; cells that a pass lacks are left out.
    """
    known = cells_s[:, np.isfinite(cells_s).all(axis=0)]
    if not known.size:
        return Variance(float("nan"), float("nan"), float("nan"))
    return Variance(float(known.mean(axis=0).var()), float(known.var(axis=0).mean()), float(known.var()))


def mean_percentile(
    candidate_s: np.ndarray, reference_s: np.ndarray, *, leaves_out: np.ndarray | None = None
) -> np.ndarray:
    """Average over tests the place of each candidate among references: 0 is the fastest position, 100 the slowest.

    Args:
      candidate_s: `[n, k]` seconds, nan where there are none.
      reference_s: `[k, h]` seconds, nan where there are none.
      leaves_out: int`[n]`, the reference that is this candidate and does not stand against itself.

    Returns:
      `[n]` percent; nan where no test has both.
    """
    places = np.full(candidate_s.shape, np.nan)
    for test, references_s in enumerate(reference_s):
        known_s = np.sort(references_s[np.isfinite(references_s)])
        seconds = candidate_s[:, test]
        faster, count = np.searchsorted(known_s, seconds).astype(float), np.full(len(seconds), float(known_s.size))
        if leaves_out is not None:
            own_s = references_s[leaves_out]
            count -= np.isfinite(own_s)
            faster -= own_s < seconds
        places[:, test] = np.where(np.isfinite(seconds) & (count > 0), faster / np.maximum(count, 1), np.nan)
    is_known = np.isfinite(places)
    count = is_known.sum(axis=1)
    total = np.where(is_known, places, 0).sum(axis=1)
    return 100 * np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


class WorkloadOrder(typing.NamedTuple):
    """Does a pass find the tests heavy that the dataset found heavy? One number for each pass.

    Attributes:
      slopes: fresh seconds per stored second, fitted over the medians of tests.
      r_squared: of those fits.
    """

    slopes: np.ndarray
    r_squared: np.ndarray

    @property
    def is_flipped(self) -> bool:
        """Whether the fitted line changes direction between passes."""
        return bool((self.slopes > 0).any() and (self.slopes < 0).any())


def workload_order(stored_s: np.ndarray, fresh_s: Sequence[np.ndarray]) -> WorkloadOrder | None:
    """Fit each test's median seconds in every pass against the stored ones (App. C.2, order of tests).

    Args:
      stored_s: `[k, h]` seconds of one problem's references, nan where there are none.
      fresh_s: the same of each pass.

    Returns:
      None where fewer than two tests with different medians were measured by every pass.
    """
    everything = np.stack([stored_s, *fresh_s])
    is_known = np.isfinite(everything).any(axis=2).all(axis=0)
    if is_known.sum() < FEWEST_TESTS:
        return None
    x, *ys = (np.nanmedian(own[is_known], axis=1) for own in everything)
    if np.ptp(x) == 0:
        return None
    fits = [np.polyfit(x, y, 1) for y in ys]
    residual = [np.sum((y - np.polyval(fit, x)) ** 2) for fit, y in zip(fits, ys, strict=True)]
    total = [np.sum((y - y.mean()) ** 2) for y in ys]
    quality = [1 - r / t if t > 0 else 0.0 for r, t in zip(residual, total, strict=True)]
    return WorkloadOrder(np.array([fit[0] for fit in fits]), np.array(quality))


def drift_ratio(stored_s: np.ndarray, fresh_s: np.ndarray) -> float:
    """Compute the median of fresh over stored seconds of one problem's cells; nan where there are none (App. C.7).

    Args:
      stored_s: any shape, nan where there are none.
      fresh_s: likewise.
    """
    on = np.isfinite(stored_s) & np.isfinite(fresh_s) & (np.nan_to_num(stored_s) > 0)
    return float(np.median(fresh_s[on] / stored_s[on])) if on.any() else float("nan")
