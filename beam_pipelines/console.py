"""Edge: prints the tables that end a job."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from beam_pipelines.report import StageRow


def stage_table(rows: Sequence[StageRow]) -> None:
    """What each stage kept and why the others went."""
    table = Table("stage", "kept", "rejected", "reasons", title="what each stage kept")
    for row in rows:
        reasons = ", ".join(f"{reason} {count}" for reason, count in row.reasons.items())
        table.add_row(row.stage, str(row.kept), str(row.rejected), reasons)
    Console().print(table)


def figures(title: str, rows: Mapping[str, Mapping[str, float]], *, form: str) -> None:
    """One line a name, one column a figure; `form` is how a figure is written."""
    columns = list(next(iter(rows.values()), {}))
    table = Table("", *columns, title=title)
    for name, row in rows.items():
        table.add_row(name, *(form.format(row[column]) for column in columns))
    Console().print(table)
