"""How figures look: colours that work for colour-blind readers, room for captions, one resolution."""

import typing
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
HATCHES = ("", "//", "..", "xx")
# A longer name would push the data out of its figure; tables have the whole of it.
LONGEST_LABEL, LONGEST_TICK = 32, 24


def colour(index: int) -> str:
    """Return the colour of the series of that number; they repeat after eight, markers tell them apart then."""
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    """Return the marker of the series of that number; where a colour comes again, another one goes with it."""
    return MARKERS[(index + 3 * (index // len(COLOURS))) % len(MARKERS)]


def bar_look(index: int) -> dict[str, typing.Any]:
    """Return colour and hatching of the bars of that series; the first eight have no hatching."""
    return {"color": colour(index), "hatch": HATCHES[index // len(COLOURS) % len(HATCHES)]}


def short_label(text: str, *, longest: int = LONGEST_LABEL) -> str:
    """Shorten a name to that many characters: its end, which has the step, is kept rather than its middle."""
    start = longest // 3
    return text if len(text) <= longest else f"{text[:start]}…{text[start + 1 - longest :]}"


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
        names, size = [short_label(label) for label in labels], 8 if len(labels) < 16 else 6
        axes.legend(
            handles, names, frameon=False, fontsize=size, ncols=columns, loc="upper left", bbox_to_anchor=(1.0, 1.0)
        )


def label_ticks(axes: Axes, *, x: Sequence[str] = (), y: Sequence[str] = (), size: int = 7) -> None:
    """Put texts at the whole numbers of an axis.

    Args:
      axes: to label.
      x: texts from 0 on, slanted where they would meet; empty leaves the axis as it is.
      y: likewise.
      size: of the font, points.
    """
    if x:
        names = [short_label(text, longest=LONGEST_TICK) for text in x]
        is_slanted = max(map(len, names)) > 6 and sum(map(len, names)) > 24
        slant: dict[str, typing.Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if is_slanted else {}
        axes.set_xticks(range(len(x)), names, fontsize=size, **slant)
    if y:
        axes.set_yticks(range(len(y)), [short_label(text, longest=LONGEST_TICK) for text in y], fontsize=size)
