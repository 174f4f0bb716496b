"""The inspection of a built dataset: tables, figures, and damage told in one line."""

import json
import shutil

import pytest

from beam_pipelines import inspect_dataset, storage
from beam_pipelines.dmc_optim import dmc_optim_dataset_builder as dmc_optim
from optimrl_jax.jobs.command_line import run_command
from tests.beam_pipelines.test_dmc_optim import SPLITS, timed

NOTES = {f"{label}_pass_rate_{when}": 0.5 for label in ("correct", "incorrect") for when in ("before", "generated")}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    for name in "abcd":
        storage.write(timed(name), directory=str(root / "r"))
    dmc_optim.prepare(root, records_directory=root / "r", splits=SPLITS)
    (root / "summary.json").write_text(
        json.dumps({"splits": {"rl_train": 2}, "stages": [{"stage": "read", "kept": 4, "rejected": 0, "reasons": {}}]})
    )
    step = {"stage": "generate_correctness", "notes": [*NOTES.items(), ("accepted", 1)]}
    (root / "traces.jsonl").write_text(json.dumps({"id": "planted/a", "trace": [step]}) + "\n")
    (root / "COMPLETE").write_text("")
    return root


@pytest.fixture
def dataset(made, tmp_path):
    return shutil.copytree(made, tmp_path / "dataset")


def inspect(*arguments):
    return run_command(inspect_dataset.main, list(arguments), name="inspect_dataset")


def test_tables_are_printed_and_written_with_figures(dataset, capsys):
    assert inspect(f"--dataset={dataset}") == 0
    printed = capsys.readouterr().out
    assert "what each stage kept" in printed
    assert "4 problems" in printed
    summary = json.loads((dataset / "inspection" / "summary.json").read_text())
    assert summary["filterability"]["original"]["problems"] == 4
    assert summary["pass_rates"] == NOTES
    assert summary["references"]["planted/a"] == {}, "no optimization test ranks the references of these problems"
    pictures = {path.name for path in (dataset / "inspection").glob("*.png")}
    assert pictures == {"duration_tails.png", "profiles.png", "pass_rates.png", "reference_percentiles.png"}


def unmarked(dataset):
    (dataset / "COMPLETE").unlink()


def without_builder(dataset):
    shutil.rmtree(dataset / "dmc_optim")


def truncated(dataset):
    for path in dataset.glob("dmc_optim/*/*.array_record-*"):
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("damage", "flags", "line"),
    [
        (unmarked, (), "expected a finished dataset (no COMPLETE in it)"),
        (without_builder, (), "expected a dmc_optim dataset in it"),
        (truncated, (), "expected a readable dataset"),
        (None, ("--split=training",), "--split = 'training': expected one of cleaned, filterable"),
        (None, ("--dataset=absent",), "--dataset = 'absent': expected an existing directory"),
        (None, ("--unknown",), "unrecognized arguments: --unknown"),
    ],
)
def test_damage_and_mistakes_are_one_line(dataset, capsys, damage, flags, line):
    if damage:
        damage(dataset)
    assert inspect(f"--dataset={dataset}", *flags) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert line in error[-1]
    assert error[-1].startswith("inspect_dataset: ")
