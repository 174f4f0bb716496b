"""Edge: `python -m beam_pipelines.inspect_dataset --dataset=D`: tables and figures of a finished dataset.

Writes `D/inspection/summary.json` and PNG files beside it, and prints the tables.
"""

import json
import pathlib
import sys
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow_datasets as tfds

from beam_pipelines.build_dataset import COMPLETE, TRACES
from beam_pipelines.dmc_optim.dmc_optim_dataset_builder import NAME
from beam_pipelines.report import console, dataset_statistics, figures, standings
from beam_pipelines.report.stage_table import PAPER_SOURCE, StageRow
from optimrl_jax.errors import UserError, require
from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.user_paths import existing_path

Trace = Mapping[str, float]


def main(arguments: Sequence[str]) -> None:
    """The whole job, for arguments after the program's name; raises UserError for what the caller can mend."""
    parser = ArgumentParser(prog="inspect_dataset", description="Shows what a dataset holds.", allow_abbrev=False)
    parser.add_argument("--dataset", default="", help="directory that build_dataset wrote")
    parser.add_argument("--split", default="cleaned", help="split to look at")
    values = parser.parse_args(arguments)
    directory = existing_path(values.dataset, "--dataset", is_directory=True)
    examples = load_examples(directory, values.split)
    traces = campaign_traces(directory / TRACES)
    summary = inspect_examples(examples, traces, build=json.loads((directory / "summary.json").read_text()))
    target = directory / "inspection"
    target.mkdir(exist_ok=True)
    (target / "summary.json").write_text(json.dumps(summary, indent=2))
    draw_figures(examples, traces, standings=summary["references"], target=target)
    print_summary(summary)


def finished_dataset(directory: pathlib.Path) -> tfds.core.DatasetBuilder:
    """The reader of a finished dataset; raises UserError, in one line, for one that is not whole."""
    require((directory / COMPLETE).exists(), "--dataset", str(directory), f"a finished dataset (no {COMPLETE} in it)")
    found = sorted((directory / NAME).glob("*/dataset_info.json"))
    require(bool(found), "--dataset", str(directory), f"a {NAME} dataset in it")
    try:
        return tfds.builder_from_directory(found[-1].parent)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise _unreadable(directory, error) from None


def load_examples(directory: pathlib.Path, split: str) -> list[dataset_statistics.Example]:
    """All examples of a split; raises UserError, in one line, for an unknown split or a damaged file."""
    builder = finished_dataset(directory)
    names = sorted(builder.info.splits)
    require(split in names, "--split", split, f"one of {', '.join(names)}")
    try:
        return list(builder.as_data_source(split=split))
    # A truncated ArrayRecord gives empty records, on which the decoder fails with a TypeError.
    except (OSError, ValueError, RuntimeError, IndexError, TypeError, zlib.error) as error:
        raise _unreadable(directory, error) from None


def _unreadable(directory: pathlib.Path, error: Exception) -> UserError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return UserError(f"--dataset = {str(directory)!r}: expected a readable dataset ({reason})")


def inspect_examples(
    examples: Sequence[dataset_statistics.Example], traces: Sequence[Trace], *, build: Mapping
) -> dict[str, object]:
    """Everything the tables show, as plain values; percentiles of references are in percent, 0 fastest."""
    return {
        "problems": len(examples),
        "source": build.get("source", ""),
        "splits": build["splits"],
        "stages": build["stages"],
        "filterability": dataset_statistics.filterability_table(examples),
        "filterability_with_base": dataset_statistics.filterability_table(
            examples, base_s=dataset_statistics.PAPER_BASE_S
        ),
        "durations": dataset_statistics.duration_table(examples),
        "tails": dataset_statistics.tail_table(examples),
        "pass_rates": mean_pass_rates(traces),
        "references": {example["id"].decode(): standing_of_references(example) for example in examples},
    }


def standing_of_references(example: dataset_statistics.Example) -> dict[str, float]:
    """Percentile, in percent, of every reference that an optimization test ranks, by the reference's id."""
    names = [text.decode() for text in example["reference_id"]]
    pairs = zip(names, standings.reference_percentiles(example), strict=True)
    return {name: round(100 * float(position), 2) for name, position in pairs if np.isfinite(position)}


def draw_figures(
    examples: Sequence[dataset_statistics.Example],
    traces: Sequence[Trace],
    *,
    standings: Mapping[str, Mapping[str, float]],
    target: pathlib.Path,
) -> None:
    """Puts the four figures into `target`."""
    figures.draw_duration_tails(examples, target / "duration_tails.png")
    figures.draw_profiles(examples, target / "profiles.png")
    figures.draw_pass_rates(traces, target / "pass_rates.png")
    percent = [value for references in standings.values() for value in references.values()]
    figures.draw_reference_percentiles(percent, target / "reference_percentiles.png")


def print_summary(summary: Mapping) -> None:
    """Prints the stage table, filterability, durations, tails, pass rates and standings."""
    has_paper = summary["source"] == PAPER_SOURCE
    console.print_stage_table([StageRow(**row) for row in summary["stages"]], has_paper=has_paper)
    console.print_figures("problems that durations (or lengths) can filter", summary["filterability"], form="{:d}")
    title = "the same with the paper's base of 65 ms a run"
    console.print_figures(title, summary["filterability_with_base"], form="{:d}")
    console.print_figures("durations of tests", summary["durations"], form="{:.4g}")
    console.print_figures("tails by problem", summary["tails"], form="{:.3g}")
    console.print_figures(
        "share of solutions that pass, mean over problems", {"": summary["pass_rates"]}, form="{:.2%}"
    )
    percent = [value for references in summary["references"].values() for value in references.values()]
    middle = f", median percentile {np.median(percent):.1f}" if percent else ""
    print(f"{summary['problems']} problems, {len(percent)} references on their leaderboards{middle}")


def campaign_traces(path: pathlib.Path) -> list[Trace]:
    """What the correctness campaign noted for every problem that it gave new tests, kept or rejected later."""
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [step for line in lines for step in line["trace"] if step["stage"] == "generate_correctness"]
    notes = [dict(step["notes"]) for step in steps]
    return [note for note in notes if note.get("accepted")]


def mean_pass_rates(traces: Sequence[Trace]) -> dict[str, float]:
    """Mean pass rates before and after the generated correctness tests (paper L1528), empty without a campaign."""
    names = [f"{label}_pass_rate_{when}" for label in ("correct", "incorrect") for when in ("before", "generated")]
    return {name: float(np.mean([trace[name] for trace in traces])) for name in names} if traces else {}


if __name__ == "__main__":
    sys.exit(run_command(main, name="inspect_dataset"))
