"""What a page is made of: sections with text, tables and figures; and the list of all of them."""

import dataclasses
import typing
from collections.abc import Sequence

from matplotlib.figure import Figure

Row = dict[str, typing.Any]


@dataclasses.dataclass(frozen=True, eq=False)
class TableOf:
    """A table: rows of equal columns, and a caption that says n and units."""

    name: str
    caption: str
    rows: Sequence[Row]


@dataclasses.dataclass(frozen=True, eq=False)
class FigureOf:
    """A figure under the name of its file, and a sentence that says what it shows, n, and what bars and bands are."""

    name: str
    caption: str
    figure: Figure


@dataclasses.dataclass(frozen=True, eq=False)
class Section:
    """A section of the page; `missing` says why there is nothing to show, and what would fill it."""

    title: str
    text: str
    tables: Sequence[TableOf] = ()
    figures: Sequence[FigureOf] = ()
    missing: str = ""


def absent(title: str, text: str, missing: str) -> Section:
    """Make a section that says what would fill it."""
    return Section(title, text, missing=missing)
