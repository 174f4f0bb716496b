"""Edge: draws what calibration campaigns found."""

import pathlib

import numpy as np
from matplotlib import axes as axes_lib
from matplotlib import figure

from sandbox.timing import calibration

DPI = 120


def families(path: pathlib.Path, pairs: calibration.DurationPairs, found: calibration.Calibration) -> None:
    """Draw fresh against stored seconds with the four fits, as a PNG file."""
    drawing, axes = _axes()
    axes.scatter(pairs.stored_s, pairs.fresh_s, s=8, alpha=0.5, color="0.4")
    grid = np.linspace(0, pairs.stored_s.max(), 200)
    for name, fit in found.fits.items():
        label = f"{name}, unseen R² {fit.unseen_r_squared:.3f}"
        axes.plot(grid, calibration.FAMILIES[name].apply(np.array(fit.coefficients), grid), label=label)
    axes.set(xlabel="stored duration, s", ylabel="fresh duration, s", title=found.version)
    axes.legend()
    drawing.savefig(path, dpi=DPI)


def comparison(path: pathlib.Path, *campaigns: tuple[calibration.DurationPairs, calibration.Calibration]) -> None:
    """Draw pairs and affine maps of several campaigns in one figure, the older ones first, as a PNG file."""
    drawing, axes = _axes()
    longest_s = max(pairs.stored_s.max() for pairs, _ in campaigns)
    for n, (pairs, found) in enumerate(campaigns):
        axes.scatter(pairs.stored_s, pairs.fresh_s, s=8, alpha=0.4, color=f"C{n}")
        label = f"{found.version}: {found.alpha:.4f} d {found.beta:+.4f} s"
        axes.plot([0, longest_s], [found.beta, found.alpha * longest_s + found.beta], color=f"C{n}", label=label)
    axes.axline((0, 0), slope=1, color="0.6", linestyle="dashed", linewidth=1, label="no change")
    axes.set(xlabel="stored duration, s", ylabel="fresh duration, s")
    axes.legend()
    drawing.savefig(path, dpi=DPI)


def residuals(path: pathlib.Path, pairs: calibration.DurationPairs, found: calibration.Calibration) -> None:
    """Draw what the affine map leaves, in milliseconds, by problem: one that lies off zero is not fitted by it."""
    drawing, axes = _axes()
    left_ms = 1e3 * (pairs.fresh_s - found.alpha * pairs.stored_s - found.beta)
    problems = np.unique(pairs.problem)
    axes.boxplot([left_ms[pairs.problem == problem] for problem in problems])
    axes.set_xticks(range(1, len(problems) + 1), problems, rotation=90)
    axes.axhline(0, color="0.6", linewidth=1)
    axes.set(xlabel="problem", ylabel="fresh - calibrated duration, ms")
    drawing.savefig(path, dpi=DPI)


def _axes() -> tuple[figure.Figure, axes_lib.Axes]:
    drawing = figure.Figure(figsize=(6, 5), layout="constrained")
    return drawing, drawing.subplots()
