"""Whether runs of the quickstart and of the study agree with the tables of the README, as one JSON line.

`python -m tests.benchmarks.readme [--runs=runs]` reads `summary.json` of both, where they were run, and prints
`cells`, the figures that both have, `cells_within_share`, how many of them lie in the interval that the README states,
and `outside`, the others by row and column with what was found. `--table` prints the rows as found, in Markdown.
"""

import argparse
import json
import pathlib
import re
import sys

from tests import source

# Row of the README's first table: policy in the summary of the quickstart, score.
ROWS = {
    "SFT, where it starts": ("sft", "pass@1"),
    "GRPO, ranked p30": ("grpo", "pass@1"),
    "SFT, pass@10": ("sft", "pass@10"),
    "GRPO, ranked p30, pass@10": ("grpo", "pass@10"),
}
# Row of its second one: row of the study, whose gains over the SFT policy are given in points.
STUDY_ROWS = {
    "Standard RLVR": "standard_rlvr",
    "MC + MO": "mc_optimization_tests",
    "Ranked p30": "per_test_top_30",
}
STUDY_SCORES = ("pass@1 p100", "pass@1 p30", "pass@10 p100", "pass@10 p30")
INTERVALS = {"pass@1": "interval", "pass@10": "interval@10"}
PERCENTILES = ("p100", "p50", "p30", "p10")
CELL = re.compile(r"([-+]?[\d.]+) \[([-+]?[\d.]+), ([-+]?[\d.]+)\]")

# Mean, lower and upper end of the interval, in percent or points.
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
    """The cells of each row of the README's tables, in the order of `columns`."""
    rows = {}
    for name in (*ROWS, *STUDY_ROWS):
        (line,) = re.findall(rf"^\| {re.escape(name)} \|(.*)$", text, flags=re.MULTILINE)
        rows[name] = [(float(mean), float(low), float(high)) for mean, low, high in CELL.findall(line)]
    return rows


def columns(name: str) -> tuple[str, ...]:
    """What the cells of a row are."""
    return PERCENTILES if name in ROWS else STUDY_SCORES


def found_rows(runs: pathlib.Path) -> dict[str, list[Cell]]:
    """The same of the summaries that are there."""
    rows = {}
    if summary := _read(runs / "quickstart" / "summary.json"):
        for name, (policy, score) in ROWS.items():
            means, intervals = summary[score][policy], summary[INTERVALS[score]][policy]
            rows[name] = [_cell(means[tau], *intervals[tau]) for tau in PERCENTILES]
    if summary := _read(runs / "study" / "summary.json"):
        for name, row in STUDY_ROWS.items():
            if row in summary["scores"][STUDY_SCORES[0]]:
                gains = (summary["scores"][score][row]["gain"] for score in STUDY_SCORES)
                rows[name] = [_around(gain["mean"], gain["half_width"]) for gain in gains]
    return rows


def _read(path: pathlib.Path) -> dict:
    return json.loads(path.read_text()) if path.is_file() else {}


def _around(mean: float, half_width: float) -> Cell:
    return mean, mean - half_width, mean + half_width


def _cell(*shares: float) -> Cell:
    mean, low, high = (100.0 * share for share in shares)
    return mean, low, high


def compared(stated: dict[str, list[Cell]], found: dict[str, list[Cell]]) -> dict[str, object]:
    """Return how many means that were found lie in the stated intervals, and which do not."""
    outside, cells = {}, 0
    for name, row in found.items():
        for column, (_, low, high), (mean, *_) in zip(columns(name), stated[name], row, strict=True):
            cells += 1
            if not low <= mean <= high:
                outside[f"{name}, {column}"] = round(mean, 1)
    return {"cells": cells, "cells_within_share": 1 - len(outside) / cells if cells else None, "outside": outside}


def markdown(name: str, cells: list[Cell]) -> str:
    number = "+.1f" if name in STUDY_ROWS else ".1f"
    shown = (f"{mean:{number}} [{low:{number}}, {high:{number}}]" for mean, low, high in cells)
    return f"| {name} | " + " | ".join(shown) + " |"


if __name__ == "__main__":
    main(sys.argv[1:])
