"""One HTML page of an inspection: its tables and figures in the order in which the paper shows them. Pure."""

import html
from collections.abc import Mapping, Sequence

Table = Mapping[str, Mapping[str, object]]

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>DMC-Optim</title><style>
body { font-family: sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; font-size: 0.9rem }
td, th { padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left }
img { max-width: 100%; display: block; margin: 0.5rem 0 1.5rem }
</style></head><body>
<h1>DMC-Optim: what is in it, and how it came about</h1>
"""


def report_page(tables: Mapping[str, Table], figures: Mapping[str, str], *, notes: Sequence[str]) -> str:
    """Write the page as HTML.

    Args:
      tables: title -> row -> column -> figure; empty tables are left out.
      figures: title -> file name beside the page.
      notes: paragraphs above the tables.
    """
    parts = [_HEAD, *(f"<p>{html.escape(note)}</p>\n" for note in notes)]
    for title, table in tables.items():
        if table:
            parts.append(f"<h2>{html.escape(title)}</h2>\n{_table(table)}")
    for title, name in figures.items():
        parts.append(f'<h2>{html.escape(title)}</h2>\n<img src="{html.escape(name)}" alt="{html.escape(title)}">\n')
    return "".join([*parts, "</body></html>\n"])


def _table(table: Table) -> str:
    columns = list(dict.fromkeys(column for row in table.values() for column in row))
    head = "".join(f"<th>{html.escape(column)}</th>" for column in ("", *columns))
    rows = [
        f"<tr><td>{html.escape(name)}</td>"
        + "".join(f"<td>{_cell(row.get(column))}</td>" for column in columns)
        + "</tr>"
        for name, row in table.items()
    ]
    return f"<table><tr>{head}</tr>\n" + "\n".join(rows) + "\n</table>\n"


def _cell(value: object) -> str:
    if value is None or value != value:  # NaN differs from itself
        return ""
    return f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))
