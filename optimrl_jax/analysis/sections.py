"""What a page is made of: sections with text, tables and figures; and the list of all of them."""

import dataclasses
import typing
from collections.abc import Sequence

from matplotlib.figure import Figure

Row = dict[str, typing.Any]


@dataclasses.dataclass(frozen=True, eq=False)
class TableOf:
    """A table of rows with equal columns.

    Attributes:
      name: of its files.
      caption: says n and units.
      rows: values by column.
    """

    name: str
    caption: str
    rows: Sequence[Row]


@dataclasses.dataclass(frozen=True, eq=False)
class FigureOf:
    """A figure.

    Attributes:
      name: of its file.
      caption: says what it shows, n, and what bars and bands are.
      figure: as drawn.
    """

    name: str
    caption: str
    figure: Figure


@dataclasses.dataclass(frozen=True, eq=False)
class Section:
    """A section of the page.

    Attributes:
      title: its heading.
      text: what it is about, in a sentence or two.
      tables: below the figures.
      figures: below the text.
      missing: why there is nothing to show, and what would fill it; empty where there is something.
    """

    title: str
    text: str
    tables: Sequence[TableOf] = ()
    figures: Sequence[FigureOf] = ()
    missing: str = ""


def absent(title: str, text: str, missing: str) -> Section:
    """Make a section that has nothing to show.

    Args:
      title: its heading.
      text: what it would be about.
      missing: what would fill it.
    """
    return Section(title, text, missing=missing)
