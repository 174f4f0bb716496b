"""How figures look: colours that work for colour-blind readers, room for captions, one resolution."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with any common colour blindness; black comes last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# Perceptually even and legible in grey: larger is brighter.
SEQUENTIAL = "viridis"
DIVERGING = "PuOr"
DPI = 130


def colour(index: int) -> str:
    """Return the colour of the series of that number; they repeat after eight, markers tell them apart then."""
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    """Return the marker of the series of that number."""
    return MARKERS[index % len(MARKERS)]


def new_figure(width: float = 6.4, height: float = 3.8, *, caption: str = "") -> Figure:
    """Make a figure.

    Args:
      width: inches.
      height: inches.
      caption: says n and what bars and bands are.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    if caption:
        figure.supxlabel(caption, fontsize=8, color="0.35")
    return figure


def whiskers(mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Turn intervals into the lengths that error bars take: never negative, whatever rounding says.

    Args:
      mean: `[n]`.
      low: `[n]` lower ends.
      high: `[n]` upper ends.

    Returns:
      `[2, n]` lengths below and above the mean.
    """
    return np.maximum(0, np.stack([np.subtract(mean, low), np.subtract(high, mean)]))


def show_legend(axes: Axes, *, columns: int = 1) -> None:
    """Draw a small legend beside the data, where it hides nothing; none where nothing has a label."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        axes.legend(
            handles, labels, frameon=False, fontsize=8, ncols=columns, loc="upper left", bbox_to_anchor=(1.0, 1.0)
        )


def label_ticks(axes: Axes, *, x: Sequence[str] = (), y: Sequence[str] = (), size: int = 7) -> None:
    """Put texts at the whole numbers of an axis.

    Args:
      axes: to label.
      x: texts from 0 on; empty leaves the axis as it is.
      y: likewise.
      size: of the font, points.
    """
    if x:
        axes.set_xticks(range(len(x)), x, fontsize=size, rotation=45 if max(map(len, x)) > 6 else 0, ha="center")
    if y:
        axes.set_yticks(range(len(y)), y, fontsize=size)
