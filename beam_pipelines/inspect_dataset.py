"""Edge: `python -m beam_pipelines.inspect_dataset --dataset=D`: tables and figures of a finished dataset.

Writes `D/inspection/summary.json`, PNG files and a page of both (`index.html`), and prints the tables. Several
datasets, with commas between them, are compared by the sizes and durations of their tests instead.
"""

import functools
import json
import pathlib
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow_datasets as tfds

from beam_pipelines.build_dataset import COMPLETE
from beam_pipelines.dmc_optim.dmc_optim_dataset_builder import NAME
from beam_pipelines.report import (
    campaign_export,
    campaign_tables,
    console,
    dataset_statistics,
    figures,
    standings,
    tail_tables,
)
from beam_pipelines.report.page import report_page
from beam_pipelines.report.stage_table import PAPER_SOURCE, StageRow
from beam_pipelines.report.trace_files import REVIEWS, TRACES
from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.errors import UserError, require
from optimrl_jax.jobs.user_paths import existing_path, writable_directory

Trace = Mapping[str, float]
Taken = TypeVar("Taken")

# What the page shows, in its order: tables by the name of their rows in the summary, then tables of a single row.
PAGE_TABLES = {
    "solutions": "Problems and solutions by stage (App. B.6, Table 19)",
    "generation": "Test generation by campaign (App. B.4, Table 12)",
    "false_positives": "False-positive rates before and after generated tests (App. B.5, Figures 14 and 15)",
    "filters": "Mean pass rates after each filter alone and both (App. B.5, Figure 17)",
    "statuses": "Executions by status on generated tests (App. B.5, Figures 18 and 19)",
    "largest_reductions": "Largest false-positive reductions (App. B.5, Table 15)",
    "largest_drops": "Largest drops of correct solutions (App. B.5, Table 18)",
    "without_generated_tests": "High false positives without generated tests (App. B.5, Table 17)",
    "filterability": "Problems that durations (D) or lengths (L) can filter (App. B.7, Table 20)",
    "filterability_with_base": "The same with the paper's base of 65 ms a run",
    "durations": "Durations of tests (App. B.8, Table 21)",
    "tails": "Tails by problem (App. B.8, Table 22)",
    "prevalence": "Slow tests over thresholds (App. B.8, Figure 22)",
    "quantiles": "Per-problem quantiles, median over problems (App. B.8, Figure 23)",
    "slowest_tests": "Share of a suite's duration that its slowest tests take (App. B.7, Figure 20)",
    "sizes": "Characters of input and output (App. B.4)",
    "best_humans": "The best human of each problem",
}
PAGE_ROWS = {
    "attrition": "Correct-solution attrition (App. B.5, Table 14)",
    "false_positive_changes": "How false-positive rates changed (App. B.5)",
    "totals": "References and durations in all (App. B.3)",
}
PAGE_FIGURES = {
    "Tails of durations": "duration_tails.png",
    "Tails with equal weight for each problem": "prevalence.png",
    "Quantiles of every problem": "quantiles.png",
    "Most and least filterable problems": "profiles.png",
    "Pass rates before and after generated tests": "pass_rates.png",
    "False-positive rates": "false_positives.png",
    "What the filters do": "filters.png",
    "Statuses on generated tests": "statuses.png",
    "Human references on their leaderboards": "reference_percentiles.png",
}
UNTIMED_FIGURES = {"Sizes of tests (App. A, Figure 8)": "sizes.png"}
COMPARISON_FIGURES = UNTIMED_FIGURES | {
    "Durations of executions: histogram and survival (App. A, Figure 9)": "durations.png",
}


class Page(NamedTuple):
    """What a page shows: titles of the summary's tables and of its single rows, by name, and files by title."""

    tables: Mapping[str, str]
    rows: Mapping[str, str]
    figures: Mapping[str, str]


TIMED = Page(PAGE_TABLES, PAGE_ROWS, PAGE_FIGURES)
# Of a dataset of tests alone.
UNTIMED = Page({name: PAGE_TABLES[name] for name in ("solutions", "sizes")}, {}, UNTIMED_FIGURES)


def main(arguments: Sequence[str]) -> None:
    """Inspect a finished dataset: write its tables and figures, and print the tables.

    Args:
      arguments: what follows the program's name on the command line.

    Raises:
      UserError: the dataset is missing, unfinished or damaged, or has no such split.
    """
    parser = ArgumentParser(prog="inspect_dataset", description="Shows what a dataset holds.", allow_abbrev=False)
    parser.add_argument("--dataset", default="", help="directory that build_dataset wrote; several: compare them")
    parser.add_argument("--split", default="cleaned", help="split to look at")
    parser.add_argument("--output", default="", help="directory of tables and figures; empty: in the first dataset")
    parser.add_argument("--campaign", default="", help="file to write, for `python -m sandbox.calibrate --campaign`")
    parser.add_argument("--campaign_references", type=int, default=5, help="programs of a problem in it, at most")
    parser.add_argument("--campaign_tests", type=int, default=20, help="tests of a program in it, at most")
    values = parser.parse_args(arguments)
    directory, *others = [existing_path(one, "--dataset", is_directory=True) for one in values.dataset.split(",")]
    if values.campaign:
        require(values.campaign_references > 0, "--campaign_references", values.campaign_references, "at least 1")
        require(values.campaign_tests > 0, "--campaign_tests", values.campaign_tests, "at least 1")
        export_campaign(
            directory,
            values.split,
            pathlib.Path(values.campaign),
            references=values.campaign_references,
            tests=values.campaign_tests,
        )
        return
    target = writable_directory(
        values.output or str(directory / ("comparison" if others else "inspection")), "--output"
    )
    if others:
        compare_datasets([directory, *others], values.split, target=target)
    else:
        inspect_dataset(directory, values.split, target=target)


def inspect_dataset(directory: pathlib.Path, split: str, *, target: pathlib.Path) -> None:
    """Write all tables and figures of one dataset, and print the tables.

    Args:
      directory: directory that `build_dataset` wrote.
      split: name of a split or view.
      target: existing directory for what is written.

    Raises:
      UserError: there is no such split, or a file is damaged.
    """
    examples = load_examples(directory, split)
    traces, problems = campaign_traces(directory / TRACES), problem_traces(directory / TRACES)
    build = json.loads((directory / "summary.json").read_text())
    summary = inspect_examples(examples, traces, build=build, problems=problems)
    (target / "summary.json").write_text(json.dumps(summary, indent=2))
    is_timed = summary["totals"]["references"] > 0
    if is_timed:
        figures.draw_durations(examples, target, standings=summary["references"])
        figures.draw_campaigns(campaign_tables.campaign_rates(problems), traces, target, statuses=summary["statuses"])
    else:
        figures.draw_sizes({directory.name: examples}, target / "sizes.png")
    page = TIMED if is_timed else UNTIMED
    tables = {title: summary[name] for name, title in page.tables.items()}
    tables |= {title: {name: summary[name]} for name, title in page.rows.items()}
    notes = [f"{summary['problems']} problems; cases for review are in {REVIEWS}."]
    (target / "index.html").write_text(report_page(tables, page.figures, notes=notes))
    print_summary(summary, is_timed=is_timed)
    print(f"all tables and figures: {target / 'index.html'}")


def compare_datasets(directories: Sequence[pathlib.Path], split: str, *, target: pathlib.Path) -> None:
    """Write how the tests of several datasets differ in size and duration, and print it (App. A, Figures 8 and 9).

    Args:
      directories: each one that `build_dataset` wrote; tests alone have sizes and no durations.
      split: name of a split or view that all of them have.
      target: existing directory for what is written.

    Raises:
      UserError: a dataset has no such split, or a file is damaged.
    """
    names = [path.name for path in directories]
    is_clear = len(set(names)) == len(names)
    datasets = {
        path.name if is_clear else str(path): load_examples(path, split) for path in map(pathlib.Path, directories)
    }
    sizes = {
        f"{name}: {kind}": row
        for name, examples in datasets.items()
        for kind, row in tail_tables.size_table(examples).items()
    }
    durations = {name: tail_tables.execution_table(examples) for name, examples in datasets.items()}
    (target / "summary.json").write_text(json.dumps({"sizes": sizes, "durations": durations}, indent=2))
    figures.draw_sizes(datasets, target / "sizes.png")
    figures.draw_executions(datasets, target / "durations.png")
    tables = {"Characters of input and output": sizes, "Executions of references": durations}
    (target / "index.html").write_text(report_page(tables, COMPARISON_FIGURES, notes=[", ".join(datasets)]))
    console.print_figures("characters of input and output", sizes, form="{:.4g}")
    console.print_figures("executions of references", durations, form="{:.4g}")
    print(f"both with figures: {target / 'index.html'}")


def finished_dataset(directory: pathlib.Path) -> tfds.core.DatasetBuilder:
    """Open the newest version of a finished dataset.

    Args:
      directory: directory that `build_dataset` wrote.

    Returns:
      The TFDS builder that reads it.

    Raises:
      UserError: the completion marker or the dataset is missing, or its metadata cannot be read.
    """
    require((directory / COMPLETE).exists(), "--dataset", str(directory), f"a finished dataset (no {COMPLETE} in it)")
    found = sorted((directory / NAME).glob("*/dataset_info.json"))
    require(bool(found), "--dataset", str(directory), f"a {NAME} dataset in it")
    try:
        return tfds.builder_from_directory(found[-1].parent)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise _unreadable(directory, error) from None


def export_campaign(directory: pathlib.Path, split: str, path: pathlib.Path, *, references: int, tests: int) -> None:
    """Write what `python -m sandbox.calibrate` measures again, one JSON object a line.

    Args:
      directory: directory that `build_dataset` wrote.
      split: name of a split or view.
      path: the file; an older one is replaced.
      references: programs of each problem, at most, spread over its leaderboard.
      tests: tests of each program, at most, spread over its seconds.

    Raises:
      UserError: there is no such split, or a file is damaged.
    """
    chosen = functools.partial(campaign_export.campaign_lines, references=references, tests=tests)
    lines = [line for of_problem in read_split(directory, split, chosen) for line in of_problem]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    cells = sum(len(line["inputs"]) for line in lines)
    print(f"{path}: {len(lines)} programs, {cells} runs of {len({line['problem'] for line in lines})} problems")


def load_examples(directory: pathlib.Path, split: str) -> list[dataset_statistics.Example]:
    """Load all examples of a split without their long texts.

    Args:
      directory: directory that `build_dataset` wrote.
      split: name of a split or view.

    Returns:
      The examples, condensed so that a whole dataset fits into memory.

    Raises:
      UserError: there is no such split, or a file is damaged.
    """
    return read_split(directory, split, dataset_statistics.condense)


def read_split(directory: pathlib.Path, split: str, take: Callable[[Any], Taken]) -> list[Taken]:
    """Read a split one example at a time and keep what `take` makes of each; see `load_examples`."""
    builder = finished_dataset(directory)
    names = sorted(builder.info.splits)
    require(split in names, "--split", split, f"one of {', '.join(names)}")
    try:
        return [take(example) for example in builder.as_data_source(split=split)]
    # A truncated ArrayRecord gives empty records, on which the decoder fails with a TypeError.
    except (OSError, ValueError, RuntimeError, IndexError, TypeError, zlib.error) as error:
        raise _unreadable(directory, error) from None


def _unreadable(directory: pathlib.Path, error: Exception) -> UserError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return UserError(f"--dataset = {str(directory)!r}: expected a readable dataset ({reason})")


def inspect_examples(
    examples: Sequence[dataset_statistics.Example],
    traces: Sequence[Trace],
    *,
    build: Mapping[str, Any],
    problems: Sequence[campaign_tables.ProblemTrace] = (),
) -> dict[str, Any]:
    """Return everything the tables show, as plain values.

    Args:
      examples: problems of the dataset, with or without their texts.
      traces: what the correctness campaign noted, as `campaign_traces` returns it.
      build: the `summary.json` of the build.
      problems: the traces of all problems that were read, rejected ones included.

    Returns:
      Tables by name; percentiles of references are in percent, 0 fastest.
    """
    rows = campaign_tables.campaign_rates(problems)
    return {
        "problems": len(examples),
        "source": build["source"],
        "splits": build["splits"],
        "stages": build["stages"],
        "totals": tail_tables.total_table(examples),
        "filterability": dataset_statistics.filterability_table(examples),
        "filterability_with_base": dataset_statistics.filterability_table(
            examples, base_s=dataset_statistics.PAPER_BASE_S
        ),
        "durations": dataset_statistics.duration_table(examples),
        "tails": dataset_statistics.tail_table(examples),
        "prevalence": tail_tables.prevalence_table(examples),
        "quantiles": tail_tables.quantile_table(examples),
        "slowest_tests": tail_tables.cumulative_table(examples),
        "sizes": tail_tables.size_table(examples),
        "pass_rates": mean_pass_rates(traces),
        "generation": campaign_tables.generation_table(problems),
        "attrition": campaign_tables.attrition_table(rows),
        "false_positives": campaign_tables.false_positive_table(rows),
        "false_positive_changes": campaign_tables.change_counts(rows),
        "filters": campaign_tables.filter_table(rows),
        "statuses": campaign_tables.status_table(problems),
        "solutions": campaign_tables.solution_table(problems),
        "largest_reductions": campaign_tables.largest_reductions(rows),
        "largest_drops": campaign_tables.largest_drops(rows),
        "without_generated_tests": campaign_tables.without_generated_tests(rows),
        "best_humans": tail_tables.best_humans(examples),
        "references": {example["id"].decode(): standing_of_references(example) for example in examples},
    }


def standing_of_references(example: dataset_statistics.Example) -> dict[str, float]:
    """Return the percentile of each reference that an optimization test ranks: id -> percent, 0 fastest."""
    names = [text.decode() for text in example["reference_id"]]
    pairs = zip(names, standings.reference_percentiles(example), strict=True)
    return {name: round(100 * float(position), 2) for name, position in pairs if np.isfinite(position)}


def print_summary(summary: Mapping[str, Any], *, is_timed: bool) -> None:
    """Print the stage table, generation, filterability, durations, tails, pass rates and standings.

    Args:
      summary: as `inspect_examples` returns it.
      is_timed: whether anything was executed; of tests alone their sizes are printed.
    """
    has_paper = summary["source"] == PAPER_SOURCE
    console.print_stage_table([StageRow(**row) for row in summary["stages"]], has_paper=has_paper)
    if not is_timed:
        console.print_figures("characters of input and output", summary["sizes"], form="{:.4g}")
        print(f"{summary['problems']} problems")
        return
    console.print_figures("problems that durations (or lengths) can filter", summary["filterability"], form="{:d}")
    title = "the same with the paper's base of 65 ms a run"
    console.print_figures(title, summary["filterability_with_base"], form="{:d}")
    console.print_figures("test generation by campaign", summary["generation"], form="{:.4g}")
    console.print_figures("correct-solution attrition", {"": summary["attrition"]}, form="{:.4g}")
    console.print_figures("false-positive rates", summary["false_positives"], form="{:.4g}")
    console.print_figures("durations of tests", summary["durations"], form="{:.4g}")
    console.print_figures("tails by problem", summary["tails"], form="{:.3g}")
    console.print_figures(
        "share of solutions that pass, mean over problems", {"": summary["pass_rates"]}, form="{:.2%}"
    )
    percent = [value for references in summary["references"].values() for value in references.values()]
    middle = f", median percentile {np.median(percent):.1f}" if percent else ""
    print(f"{summary['problems']} problems, {len(percent)} references on their leaderboards{middle}")


def campaign_traces(path: pathlib.Path) -> list[Trace]:
    """Return the correctness campaign's notes on each problem for which it accepted tests, rejected ones included."""
    notes = [campaign_tables.stage_notes(line, "generate_correctness") for line in problem_traces(path)]
    return [note for note in notes if note and note.get("accepted")]


def problem_traces(path: pathlib.Path) -> list[campaign_tables.ProblemTrace]:
    """Read the trace of every problem that the build read; empty where the dataset has no traces."""
    return [json.loads(line) for line in path.read_text().split("\n") if line] if path.exists() else []


def mean_pass_rates(traces: Sequence[Trace]) -> dict[str, float]:
    """Return mean pass rates, in [0, 1], before and after the generated correctness tests (App. B.5).

    Empty without a campaign.
    """
    names = [f"{label}_pass_rate_{when}" for label in ("correct", "incorrect") for when in ("before", "generated")]
    return {name: float(np.mean([trace[name] for trace in traces])) for name in names} if traces else {}


if __name__ == "__main__":
    sys.exit(run_command(main, name="inspect_dataset"))
