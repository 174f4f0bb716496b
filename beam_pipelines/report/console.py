"""Edge: prints the tables that end a job."""

import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from beam_pipelines.report.stage_table import PAPER_KEPT, StageRow

# A pipe has no width of its own; the tables need this many columns.
_CONSOLE = Console(width=None if sys.stdout.isatty() else 120)


def print_stage_table(rows: Sequence[StageRow], *, has_paper: bool = False) -> None:
    """Print what each stage kept and why the others went, beside what the paper's build kept there if it compares."""
    headings = ["stage", "kept", "rejected", *(["paper kept"] if has_paper else []), "reasons"]
    table = Table(*headings, title="what each stage kept")
    for row in rows:
        reasons = ", ".join(f"{reason} {count}" for reason, count in row.reasons.items())
        paper = [str(PAPER_KEPT.get(row.stage, ""))] if has_paper else []
        table.add_row(row.stage, str(row.kept), str(row.rejected), *paper, reasons)
    _CONSOLE.print(table)


def print_figures(title: str, rows: Mapping[str, Mapping[str, float]], *, form: str) -> None:
    """One line a name, one column a figure; `form` is how a figure is written."""
    columns = list(next(iter(rows.values()), {}))
    table = Table("", *columns, title=title)
    for name, row in rows.items():
        table.add_row(name, *(form.format(row[column]) for column in columns))
    _CONSOLE.print(table)
