"""Edge: `python -m configs [MODEL]`: what can be given as `--config`, and the rows of the paper with what it prints.

Without MODEL: every configuration with what it is for. With qwen7b, qwen32b or cwm32b: each row that
`--config=configs/MODEL.py:ROW` takes, what it changes, and pass@1 in percent on the DMC-Optim test split in the paper.
"""

import ast
import pathlib
import sys
from collections.abc import Mapping, Sequence

import rich.console
import rich.table

from optimrl_jax import environment
from optimrl_jax.environment.paper_results import PERCENTILES, PRINTED_ROWS
from optimrl_jax.jobs.command_line import ArgumentParser, run_command

NAME = "configs"
MODELS = tuple(PRINTED_ROWS)


def main(arguments: Sequence[str]) -> None:
    """Print the table that the arguments ask for.

    Raises:
      UserError: for an unknown model.
    """
    parser = ArgumentParser(prog=NAME, description="List configurations, or the rows of a model of the paper.")
    parser.add_argument("model", nargs="?", choices=MODELS, help="list the rows of this model instead")
    model = parser.parse_args(arguments).model
    width = 180 if not sys.stdout.isatty() else None
    rich.console.Console(width=width).print(row_table(model) if model else config_table())


def config_table() -> rich.table.Table:
    """Tabulate every configuration file with the first line of its docstring."""
    table = rich.table.Table("--config", "what it is for")
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        module = ast.parse(path.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "get_config" for node in module.body):
            table.add_row(f"configs/{path.name}", (ast.get_docstring(module) or "").splitlines()[0])
    return table


def row_table(model: str) -> rich.table.Table:
    """Tabulate the rows of a model: name with aliases, environment, reward, and the paper's pass@1 with its table."""
    printed = PRINTED_ROWS[model]
    table = rich.table.Table(title=f"--config=configs/{model}.py:ROW")
    # A name that is folded cannot be copied.
    table.add_column("row", no_wrap=True)
    for column in ("environment", "reward", *(f"p{percentile}" for percentile in PERCENTILES), "paper"):
        table.add_column(column)
    for row, preset in environment.PRESETS.items():
        aliases = [alias for alias, name in environment.ROW_ALIASES.items() if name == row]
        changes = [_joined({**preset.environment, **preset.grpo}), _joined(preset.reward)]
        found = printed.get(row)
        figures = [f"{share:.1f}" for share in found.pass_at_1] if found else ["-"] * len(PERCENTILES)
        table.add_row(", ".join([row, *aliases]), *changes, *figures, f"Table {found.table}" if found else "not run")
    return table


def _joined(fields: Mapping[str, object]) -> str:
    return " ".join(value if isinstance(value, str) else f"{name}={value:g}" for name, value in fields.items())


if __name__ == "__main__":
    sys.exit(run_command(main, name=NAME))
