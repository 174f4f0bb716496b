"""Edge: writes an analysis: tables as Parquet and CSV, figures as PNG, and one HTML page that needs nothing else."""

import base64
import csv
import html
import io
import math
import pathlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf
from optimrl_jax.evaluation import style

# A longer table is folded, so that figures stay near one another; its files hold every row.
OPEN_ROWS, SHOWN_ROWS = 16, 40
LONG_TEXT = 120
# Figures are drawn on white; in a dark window they keep it, with a margin.
LOOK = """
:root { color-scheme: light dark; --text: #1b1b1b; --soft: #555; --line: #ccc; --faint: #eee; --ground: #fff;
  --warn: #8a5a00; }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --soft: #aaa; --line: #555; --faint: #333; --ground: #181818; --warn: #e0b050; }
  a { color: #8ab4f8; } img { background: #fff; padding: 0.4rem; box-sizing: border-box; }
}
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: var(--text);
  background: var(--ground); }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; border-top: 1px solid var(--line); padding-top: 1rem; }
p { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: 0.82rem; margin: 0.4rem 0 1rem; display: block; overflow-x: auto; }
th, td { padding: 0.15rem 0.6rem; text-align: left; border-bottom: 1px solid var(--faint); white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; } th { border-bottom: 1px solid var(--soft); }
figure { margin: 0.6rem 0; } img { max-width: 100%; }
figcaption, .caption { font-size: 0.82rem; color: var(--soft); } summary { font-size: 0.82rem; cursor: pointer; }
.missing { color: var(--warn); } pre { background: var(--faint); padding: 0.5rem; overflow-x: auto; }
nav a { margin-right: 0.9rem; font-size: 0.85rem; display: inline-block; }
"""


def write_page(directory: pathlib.Path, studies: Sequence[tuple[str, Sequence[Section]]], *, title: str) -> None:
    """Write `index.html` with every section of every study, and each table and figure as a file of its own.

    Args:
      directory: made where it is missing.
      studies: (heading, sections) of each dataset; files of the second one and on lie in a folder of their own.
      title: of the page.
    """
    directory.mkdir(parents=True, exist_ok=True)
    parts = []
    for number, (heading, sections) in enumerate(studies):
        folder = directory if number == 0 else directory / f"dataset_{number + 1}"
        folder.mkdir(exist_ok=True)
        parts.append(f"<h1>{html.escape(heading)}</h1>{_contents(sections, number)}")
        parts += [_section(folder, section, f"s{number}-{place}") for place, section in enumerate(sections)]
    meta = "<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
    head = f"{meta}<title>{html.escape(title)}</title><style>{LOOK}</style>"
    text = f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>"
    partial = directory / "index.html.partial"
    partial.write_text(text)
    partial.replace(directory / "index.html")


def _contents(sections: Sequence[Section], number: int) -> str:
    links = [f"<a href='#s{number}-{i}'>{html.escape(section.title)}</a>" for i, section in enumerate(sections)]
    return f"<nav>{''.join(links)}</nav>"


def _section(folder: pathlib.Path, section: Section, anchor: str) -> str:
    parts = [f"<h2 id='{anchor}'>{html.escape(section.title)}</h2><p>{html.escape(section.text)}</p>"]
    if section.missing:
        parts.append(f"<p class='missing'>Nothing to show: {html.escape(section.missing)}.</p>")
    parts += [_figure(folder, figure) for figure in section.figures]
    parts += [_table(folder, table) for table in section.tables if table.rows]
    return "".join(parts)


def _figure(folder: pathlib.Path, figure: FigureOf) -> str:
    buffer = io.BytesIO()
    figure.figure.savefig(buffer, format="png", dpi=style.DPI)
    (folder / f"{figure.name}.png").write_bytes(buffer.getvalue())
    encoded = base64.b64encode(buffer.getvalue()).decode()
    caption = html.escape(figure.caption)
    source = f"data:image/png;base64,{encoded}"
    return f"<figure><img alt='{caption}' src='{source}'><figcaption>{caption}</figcaption></figure>"


def _table(folder: pathlib.Path, table: TableOf) -> str:
    columns = list(dict.fromkeys(name for row in table.rows for name in row))
    full = [{name: row.get(name) for name in columns} for row in table.rows]
    pq.write_table(pa.Table.from_pylist(full), folder / f"{table.name}.parquet")
    with (folder / f"{table.name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(full)
    rest = f" (the first {SHOWN_ROWS} of {len(full)} rows, all in {table.name}.csv)" if len(full) > SHOWN_ROWS else ""
    caption = f"<p class='caption'><b>{html.escape(table.name)}</b>: {html.escape(table.caption)}{rest}</p>"
    shown = _shown_table(full)
    if len(full) > OPEN_ROWS:
        shown = f"<details><summary>{len(full)} rows</summary>{shown}</details>"
    return caption + shown


def _shown_table(rows: Sequence[Row]) -> str:
    """Return the first rows as HTML, without the columns that are empty in all rows."""
    columns = [name for name in rows[0] if not all(_is_empty(row[name]) for row in rows)]
    head = "".join(f"<th{_alignment(rows, name)}>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td{_alignment(rows, name)}>{_cell(row[name])}</td>' for name in columns)}</tr>"
        for row in rows[:SHOWN_ROWS]
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _alignment(rows: Sequence[Row], name: str) -> str:
    is_number = all(isinstance(row[name], int | float) or _is_empty(row[name]) for row in rows[:SHOWN_ROWS])
    return " class='number'" if is_number else ""


def _is_empty(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _cell(value: object) -> str:
    if _is_empty(value):
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    if len(text) > LONG_TEXT or "\n" in text:
        return f"<details><summary>show</summary><pre>{html.escape(text)}</pre></details>"
    return html.escape(text)
