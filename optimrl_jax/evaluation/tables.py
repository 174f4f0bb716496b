"""Edge: prints evaluation results as tables."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from optimrl_jax.evaluation.scores import Scores


def pass_table(scores: Mapping[str, Scores], gains: Mapping[str, Scores], *, title: str) -> Table:
    """Tabulate one row for each (policy, k), one column for each p_tau: mean with its 95 % interval, in percent."""
    first = next(iter(scores.values()))
    taus = list(next(iter(first.values())))
    table = Table(title=title, caption="percent of problems, 95 % bootstrap interval over problems; gains are paired")
    table.add_column("policy")
    table.add_column("score")
    for tau in taus:
        table.add_column(tau, justify="right")
    for name, of_policy in [*scores.items(), *gains.items()]:
        for score, row in of_policy.items():
            table.add_row(name, score, *(_cell(row[tau], is_gain=name in gains) for tau in taus))
    return table


def print_table(table: Table) -> None:
    """Print a table at a width that also fits a log file."""
    Console(width=110).print(table)


def _cell(value: Mapping[str, float], *, is_gain: bool) -> str:
    mean, low, high = (100 * value[name] for name in ("mean", "low", "high"))
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]" if is_gain else f"{mean:.1f} [{low:.1f}, {high:.1f}]"
