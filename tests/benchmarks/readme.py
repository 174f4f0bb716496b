"""Whether runs of the quickstart agree with the table of the README, as one JSON line.

`python -m tests.benchmarks.readme [--runs=runs]` reads `summary.json` of every variant that was run and prints
`cells`, the figures that both have, `cells_within_share`, how many of them lie in the interval that the README states,
and `outside`, the others by row and percentile with what was found. `--table` prints the rows as found, in Markdown.
"""

import argparse
import json
import pathlib
import re
import sys

from tests import source

# Row of the README: directory in `runs`, policy in its summary, score.
ROWS = {
    "SFT, where all start": ("quickstart", "sft", "pass@1"),
    "GRPO, ranked p30": ("quickstart", "grpo", "pass@1"),
    "GRPO, standard RLVR": ("quickstart_rlvr", "grpo", "pass@1"),
    "GRPO, MC + MO": ("quickstart_mcmo", "grpo", "pass@1"),
    "GRPO, optimization only": ("quickstart_opt_only", "grpo", "pass@1"),
    "SFT, pass@10": ("quickstart", "sft", "pass@10"),
    "GRPO, ranked p30, pass@10": ("quickstart", "grpo", "pass@10"),
}
INTERVALS = {"pass@1": "interval", "pass@10": "interval@10"}
PERCENTILES = ("p100", "p50", "p30", "p10")
CELL = re.compile(r"([\d.]+) \[([\d.]+), ([\d.]+)\]")

# Mean, lower and upper end of the interval, in percent.
Cell = tuple[float, float, float]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="readme", description="Compare runs of the quickstart with the README.")
    parser.add_argument("--runs", type=pathlib.Path, default=source.ROOT / "runs", help="where the variants were run")
    parser.add_argument("--table", action="store_true", help="print the rows as found, in Markdown")
    options = parser.parse_args(arguments)
    found = found_rows(options.runs)
    if options.table:
        print("\n".join(markdown(name, cells) for name, cells in found.items()), file=sys.stderr)
    print(json.dumps(compared(stated_rows((source.ROOT / "README.md").read_text()), found)))


def stated_rows(text: str) -> dict[str, list[Cell]]:
    """The cells of each row of the README's table, in the order of PERCENTILES."""
    rows = {}
    for name in ROWS:
        (line,) = re.findall(rf"^\| {re.escape(name)} \|(.*)$", text, flags=re.MULTILINE)
        rows[name] = [(float(mean), float(low), float(high)) for mean, low, high in CELL.findall(line)]
    return rows


def found_rows(runs: pathlib.Path) -> dict[str, list[Cell]]:
    """The same of the summaries that are there."""
    rows = {}
    for name, (directory, policy, score) in ROWS.items():
        path = runs / directory / "summary.json"
        if path.is_file():
            summary = json.loads(path.read_text())
            means, intervals = summary[score][policy], summary[INTERVALS[score]][policy]
            rows[name] = [_cell(means[tau], *intervals[tau]) for tau in PERCENTILES]
    return rows


def _cell(*shares: float) -> Cell:
    mean, low, high = (100.0 * share for share in shares)
    return mean, low, high


def compared(stated: dict[str, list[Cell]], found: dict[str, list[Cell]]) -> dict[str, object]:
    """Return how many means that were found lie in the stated intervals, and which do not."""
    outside, cells = {}, 0
    for name, row in found.items():
        for tau, (_, low, high), (mean, *_) in zip(PERCENTILES, stated[name], row, strict=True):
            cells += 1
            if not low <= mean <= high:
                outside[f"{name}, {tau}"] = round(mean, 1)
    return {"cells": cells, "cells_within_share": 1 - len(outside) / cells if cells else None, "outside": outside}


def markdown(name: str, cells: list[Cell]) -> str:
    return f"| {name} | " + " | ".join(f"{mean:.1f} [{low:.1f}, {high:.1f}]" for mean, low, high in cells) + " |"


if __name__ == "__main__":
    main(sys.argv[1:])
