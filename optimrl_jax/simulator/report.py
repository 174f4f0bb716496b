"""Edge: stores what the simulator found as Parquet, reads online scores and prints summary tables."""

import csv
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from optimrl_jax.jobs.errors import UserError
from optimrl_jax.simulator.configurations import STAGES, Configuration
from optimrl_jax.simulator.diagnostics import DIAGNOSTICS, Correlation

PAPER_SCORES = pathlib.Path(__file__).with_name("online_scores.csv")


def write_table(
    path: pathlib.Path, configurations: Sequence[Configuration], columns: Mapping[str, np.ndarray], curves: np.ndarray
) -> None:
    """Write one row for each configuration: fields, diagnostics, why it is degenerate, its rank and its raw curve.

    Args:
      path: of the Parquet file.
      configurations: of the sweep.
      columns: `[c]` by name.
      curves: `[c, n]` raw pass rates.
    """
    fields = ("filter_limit", "limit", "bound", "tolerance", "threshold")
    values = [dict(one.values) for one in configurations]
    table = {
        "name": [one.name for one in configurations],
        "family": [one.family for one in configurations],
        "stage": [STAGES[one.family] for one in configurations],
        **{field: [of_one.get(field) for of_one in values] for field in fields},
        **columns,
        "curve": list(curves.astype(np.float32)),
    }
    pq.write_table(pa.table(table), path)


def read_scores(path: pathlib.Path, *, least_steps: int = 0) -> tuple[list[str], list[str], dict[str, np.ndarray]]:
    """Read the scores of online runs.

    Args:
      path: a CSV file with the columns label, configuration, and p followed by a number.
      least_steps: rows of fewer `steps` are left out, where the file has that column: runs that were stopped early are
        not compared with whole ones.

    Returns:
      Labels, configuration names, and {p_tau: scores `[runs]`}; an empty cell is nan.

    Raises:
      UserError: for a file that cannot be read, lacks a column or has no row.
    """
    try:
        with path.open(newline="") as file:
            read = list(csv.DictReader(file))
        rows = [row for row in read if int(row.get("steps") or least_steps) >= least_steps]
        taus = [name for name in rows[0] if name[:1] == "p" and name[1:].isdigit()]
        scores = {tau: np.array([float(row[tau] or "nan") for row in rows]) for tau in taus}
        return [row["label"] for row in rows], [row["configuration"] for row in rows], scores
    except (OSError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UserError(
            f"online_scores = {str(path)!r}: expected a CSV with label, configuration and p columns ({error!r})"
        ) from None


def correlation_table(matrix: Mapping[str, Mapping[str, Correlation]], *, title: str) -> Table:
    """Tabulate metric by p_tau: Spearman's rho with its two-sided p-value, in the layout of Table 45.

    Args:
      matrix: {metric: {score: correlation}} (`diagnostics.correlate`).
      title: of the table.
    """
    table = Table(title=title)
    table.add_column("diagnostic")
    for name in next(iter(matrix.values())):
        table.add_column(name, justify="right")
    for metric, row in matrix.items():
        table.add_row(DIAGNOSTICS[metric], *(f"{cell.rho:+.3f} (p = {cell.p:.2g})" for cell in row.values()))
    return table


def family_table(configurations: Sequence[Configuration], columns: Mapping[str, np.ndarray]) -> Table:
    """Count the usable configurations of each family, and name its best one.

    Args:
      configurations: of the whole sweep.
      columns: `[c]` diagnostics, `degenerate` and `rank`.
    """
    table = Table(title=f"{len(configurations):,} configurations")
    for name in ("family", "configurations", "sparse", "saturated", "unordered", "usable", "best: y = x deviation"):
        table.add_column(name, justify="left" if name == "family" else "right")
    family, why = np.array([one.family for one in configurations]), columns["degenerate"]
    for name in STAGES:
        chosen = np.flatnonzero(family == name)
        best = chosen[np.argmin(columns["rank"][chosen])]
        counts = [int((why[chosen] == reason).sum()) for reason in ("sparse", "saturated", "unordered", "")]
        text = configurations[best].name.removeprefix(name).strip()
        table.add_row(name, str(chosen.size), *map(str, counts), f"{text}: {columns['diagonal_deviation'][best]:.3f}")
    return table


def print_tables(*tables: Table) -> None:
    """Print tables at a width that also fits a log file."""
    for table in tables:
        Console(width=130).print(table)
