"""Edge: prints the tables that end a job."""

import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from beam_pipelines.records import Rejection
from beam_pipelines.report.stage_table import PAPER_KEPT, StageRow
from beam_pipelines.report.survival import SurvivalTable

SHOWN_RECORDS = 5
# More would be cut short on a console.
MOST_COLUMNS = 6
# A pipe has no width of its own; the tables need this many columns.
_CONSOLE = Console(width=None if sys.stdout.isatty() else 120)


def print_stage_table(rows: Sequence[StageRow], *, has_paper: bool = False) -> None:
    """Print what each stage kept and why the others went.

    Args:
      rows: of the stage table.
      has_paper: whether what the paper's build kept stands beside; it compares with builds of CodeContests alone.
    """
    headings = ["stage", "kept", "rejected", *(["paper kept"] if has_paper else []), "reasons"]
    table = Table(*headings, title="what each stage kept")
    for row in rows:
        reasons = ", ".join(f"{reason} {count}" for reason, count in row.reasons.items())
        paper = [str(PAPER_KEPT.get(row.stage, ""))] if has_paper else []
        table.add_row(row.stage, str(row.kept), str(row.rejected), *paper, reasons)
    _CONSOLE.print(table)


def print_rejected_records(rejections: Sequence[Rejection]) -> None:
    """Print the first records that could not be read, one a line; all of them are in the traces."""
    for one in rejections[:SHOWN_RECORDS]:
        print(f"not read: {one.problem_id}: {one.reason} {one.detail}".rstrip())
    if len(rejections) > SHOWN_RECORDS:
        print(f"not read: {len(rejections) - SHOWN_RECORDS} more")


def print_survival(table: SurvivalTable) -> None:
    """Print how many problems can pass each gate, and why the source itself turned records down."""
    sight = "all records" if table.is_whole else f"the first {table.seen} records"
    rows = Table("gate", "pass it", "pass it and all before", title=f"what can survive, of {sight}")
    for reason, count in table.rejections.items():
        rows.add_row(f"[dim]not readable: {reason}[/dim]", f"[dim]-{count}[/dim]", "")
    for name, count in table.alone.items():
        rows.add_row(name, str(count), str(table.together[name]))
    _CONSOLE.print(rows)


def print_figures(title: str, rows: Mapping[str, Mapping[str, float]], *, form: str) -> None:
    """Print a table with a line for each name and a column for each figure, or the other way round if that is narrower.

    Args:
      title: above the table.
      rows: name -> column -> figure; figures that are absent or not a number stay blank.
      form: how a figure is written, as in `{:.4g}`.
    """
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = {name: {column: _cell(row.get(column), form) for column in columns} for name, row in rows.items()}
    if len(columns) > max(MOST_COLUMNS, len(rows)):
        cells = {column: {name: row[column] for name, row in cells.items()} for column in columns}
        columns = list(rows)
    table = Table("", *columns, title=title)
    for name, row in cells.items():
        table.add_row(name, *row.values())
    _CONSOLE.print(table)


def _cell(figure: float | None, form: str) -> str:
    return "" if figure is None or figure != figure else form.format(figure)  # NaN differs from itself
