"""What a pass-rate curve says about its environment: density, slope, wobble, place and order (App. E.2).

Fourth stage of the simulator. Every function takes curves [c, n] of c configurations over n steps, with values in
[0, 1], and returns one number for each, [c].
"""

import typing
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

SLOPES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
MIDDLES = tuple(np.linspace(0.05, 0.95, 10))
ITERATIONS = 60
# Fewer online runs than this have no correlation.
FEWEST_RUNS = 3


def smoothed(curves: np.ndarray, *, window: int) -> np.ndarray:
    """Average over a moving window of steps.

    Args:
      curves: `[c, n]` pass rates in [0, 1].
      window: steps of the average.

    Returns:
      `[c, n - window + 1]`.

    Raises:
      ValueError: unless 1 <= window <= n.
    """
    n = curves.shape[-1]
    if not 1 <= window <= n:
        raise ValueError(f"window = {window}: expected 1 to {n}, the number of steps")
    # Window by window: differences of running totals would leave rounding noise on flat stretches, and ranks see it.
    return np.lib.stride_tricks.sliding_window_view(curves, window, axis=-1).mean(axis=-1)


def auc(curves: np.ndarray) -> np.ndarray:
    """Average a curve, raw or smoothed, in [0, 1]: how much passes in the whole run."""
    return curves.mean(axis=-1)


def variance(curves: np.ndarray, *, window: int) -> np.ndarray:
    """Average (c_{i + window - 1} - smoothed_i)^2: how much a curve wobbles around the trend of the steps before.

    Args:
      curves: `[c, n]` pass rates in [0, 1].
      window: steps of the trend.

    Returns:
      `[c]`.
    """
    return ((curves[:, window - 1 :] - smoothed(curves, window=window)) ** 2).mean(axis=-1)


def diagonal_deviation(curves: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Average |c_i - x_i|, in [0, 1]: 0 for an environment that opens as gradually as its samples improve.

    Args:
      curves: `[c, n]` pass rates in [0, 1].
      x: `[n]` positions of the steps in [0, 1].

    Returns:
      `[c]`.
    """
    return np.abs(curves - x).mean(axis=-1)


def quality_correlation(curves: np.ndarray) -> np.ndarray:
    """Correlate steps and pass rates by rank, in [-1, 1], average ranks for ties; nan for a flat curve."""
    n = curves.shape[-1]
    ranks = stats.rankdata(curves, axis=-1)
    ranks = ranks - ranks.mean(axis=-1, keepdims=True)
    steps = np.arange(n) - (n - 1) / 2
    spread = np.sqrt((ranks**2).sum(axis=-1) * (steps**2).sum())
    return np.divide(ranks @ steps, spread, out=np.full(len(curves), np.nan), where=spread > 0)


def steepness(curves: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Squash the slope of the fit clip(a x + b, 0, 1) to each raw curve into (-1, 1): S = a / (1 + |a|).

    Args:
      curves: `[c, n]` pass rates in [0, 1].
      x: `[n]` positions of the steps in [0, 1].

    Returns:
      `[c]`.
    """
    slope, _ = clipped_line(curves, x)
    return slope / (1 + np.abs(slope))


def clipped_line(curves: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit clip(a x + b, 0, 1) to each curve by least squares.

    The loss has flat regions and several minima. Each curve starts from the best of the ordinary least-squares line and
    a grid of rising and falling lines (`SLOPES` through 1/2 at `MIDDLES`) and goes on with `ITERATIONS` damped
    Gauss-Newton steps, each taken only if it lowers the loss. Deterministic. A jump between two steps leaves the slope
    unbounded above: the answer is then some slope that fits as well as any.

    Args:
      curves: `[c, n]` pass rates in [0, 1].
      x: `[n]` positions of the steps in [0, 1].

    Returns:
      Slopes a and offsets b, `[c]` each.
    """
    best = _ordinary_line(curves, x)
    best_loss = _loss(curves, x, best)
    for slope in (sign * size for size in SLOPES for sign in (1, -1)):
        for middle in MIDDLES:
            line = np.broadcast_to([slope, 0.5 - slope * middle], best.shape)
            best, best_loss = _better(best, best_loss, line, _loss(curves, x, line))
    damping = np.full(len(curves), 1e-3)
    for _ in range(ITERATIONS):
        candidate = best + _damped_step(curves, x, best, damping)
        loss = _loss(curves, x, candidate)
        damping = np.clip(np.where(loss < best_loss, damping / 3, damping * 4), 1e-9, 1e9)
        best, best_loss = _better(best, best_loss, candidate, loss)
    return best[:, 0], best[:, 1]


def _better(best, best_loss, line, loss):
    improves = loss < best_loss
    return np.where(improves[:, None], line, best), np.where(improves, loss, best_loss)


def _ordinary_line(curves: np.ndarray, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean()
    slope = (curves @ centred) / max(float(centred @ centred), 1e-12)
    return np.stack([slope, curves.mean(axis=-1) - slope * x.mean()], axis=-1)


def _loss(curves: np.ndarray, x: np.ndarray, line: np.ndarray) -> np.ndarray:
    return ((np.clip(line[:, :1] * x + line[:, 1:], 0, 1) - curves) ** 2).sum(axis=-1)


def _damped_step(curves: np.ndarray, x: np.ndarray, line: np.ndarray, damping: np.ndarray) -> np.ndarray:
    """Compute the Levenberg-Marquardt step of both parameters, `[c, 2]`; only unclipped points have a gradient."""
    value = line[:, :1] * x + line[:, 1:]
    active = ((value > 0) & (value < 1)).astype(float)
    residual = active * (curves - value)
    count, first, second = active.sum(axis=-1), active @ x, active @ x**2
    right = np.stack([residual @ x, residual.sum(axis=-1)], axis=-1)
    top, bottom = second * (1 + damping) + 1e-12, count * (1 + damping) + 1e-12
    determinant = np.maximum(top * bottom - first**2, 1e-12)
    return np.stack(
        [
            (bottom * right[:, 0] - first * right[:, 1]) / determinant,
            (top * right[:, 1] - first * right[:, 0]) / determinant,
        ],
        axis=-1,
    )


def diagnose(curves: np.ndarray, x: np.ndarray, *, window: int) -> dict[str, np.ndarray]:
    """Compute all diagnostics of the paper's list (App. E.2).

    Args:
      curves: `[c, n]` pass rates in [0, 1].
      x: `[n]` positions of the steps in [0, 1].
      window: steps of the moving average.

    Returns:
      `[c]` for each key of `DIAGNOSTICS`.
    """
    trend = smoothed(curves, window=window)
    return {
        "auc_smooth": auc(trend),
        "auc_raw": auc(curves),
        "quality_correlation_smooth": quality_correlation(trend),
        "quality_correlation_raw": quality_correlation(curves),
        "variance": variance(curves, window=window),
        "diagonal_deviation": diagonal_deviation(curves, x),
        "steepness": steepness(curves, x),
    }


DIAGNOSTICS = {
    "auc_smooth": "AUC (smoothed)",
    "auc_raw": "AUC (raw)",
    "quality_correlation_smooth": "Quality-correlation (smoothed)",
    "quality_correlation_raw": "Quality-correlation (raw)",
    "variance": "Variance around trend",
    "diagonal_deviation": "Deviation from y = x",
    "steepness": "Steepness S",
}


def degeneracy(
    diagnostics: dict[str, np.ndarray], *, least_auc: float, most_auc: float, least_correlation: float
) -> np.ndarray:
    """Say why a configuration cannot teach: "sparse", "saturated", "unordered" (App. E.2), or "" where it can.

    Args:
      diagnostics: `[c]` by name (`diagnose`).
      least_auc: raw AUC below which it is sparse.
      most_auc: raw AUC above which it is saturated.
      least_correlation: raw quality-correlation below which it is unordered; a flat curve always is.

    Returns:
      str`[c]`.
    """
    correlation = np.nan_to_num(diagnostics["quality_correlation_raw"], nan=-1.0)
    return np.select(
        [
            diagnostics["auc_raw"] < least_auc,
            diagnostics["auc_raw"] > most_auc,
            correlation < least_correlation,
        ],
        ["sparse", "saturated", "unordered"],
        default="",
    )


def rank_configurations(diagnostics: dict[str, np.ndarray], degenerate: np.ndarray) -> np.ndarray:
    """Rank configurations by diagonal deviation, the best predictor (App. E.3); degenerate ones come last.

    Args:
      diagnostics: `[c]` by name (`diagnose`).
      degenerate: `[c]` reasons (`degeneracy`).

    Returns:
      int`[c]` ranks, 1 best.
    """
    order = np.lexsort((diagnostics["diagonal_deviation"], degenerate != ""))
    places = np.empty(order.size, int)
    places[order] = np.arange(1, order.size + 1)
    return places


class Correlation(typing.NamedTuple):
    """Spearman's rank correlation.

    Attributes:
      rho: in [-1, 1]; nan with too few runs or a constant side.
      p: two-sided p-value; nan likewise.
      runs: number of runs with both values.
    """

    rho: float
    p: float
    runs: int


def correlate(
    diagnostics: Mapping[str, np.ndarray], scores: Mapping[str, np.ndarray]
) -> dict[str, dict[str, Correlation]]:
    """Correlate simulated diagnostics with the scores of real runs (App. E.3, Table 45).

    Args:
      diagnostics: values `[runs]` by name of the metric.
      scores: online scores `[runs]` by name, in the same order; a run with a nan on either side drops out.

    Returns:
      {metric: {score: correlation}}.
    """
    return {
        metric: {
            name: _spearman(np.asarray(values, float), np.asarray(of_score, float)) for name, of_score in scores.items()
        }
        for metric, values in diagnostics.items()
    }


def configuration_rows(names: Sequence[str], *, among: Sequence[str]) -> np.ndarray:
    """Find the index of each configuration name in a sweep.

    Args:
      names: of the configurations to find.
      among: names of the sweep, in its order.

    Returns:
      int`[names]`.

    Raises:
      ValueError: for a name that the sweep does not hold.
    """
    index = {name: row for row, name in enumerate(among)}
    missing = [name for name in names if name not in index]
    if missing:
        raise ValueError(f"configuration {missing[0]!r}: expected one of the sweep, such as {among[0]!r}")
    return np.array([index[name] for name in names], int)


def _spearman(left: np.ndarray, right: np.ndarray) -> Correlation:
    finite = np.isfinite(left) & np.isfinite(right)
    left, right = left[finite], right[finite]
    if left.size < FEWEST_RUNS or np.ptp(left) == 0 or np.ptp(right) == 0:
        return Correlation(float("nan"), float("nan"), left.size)
    found = stats.spearmanr(left, right)
    return Correlation(float(found.statistic), float(found.pvalue), left.size)
