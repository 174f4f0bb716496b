"""The inspection of a built dataset: tables, figures, and damage told in one line."""

import json
import shutil

import pytest

from beam_pipelines import inspect_dataset
from optimrl_jax.jobs.command_line import run_command
from tests.beam_pipelines import planted
from tests.beam_pipelines.corpora import run_quietly


@pytest.fixture
def dataset(finished_dataset, tmp_path):
    return shutil.copytree(finished_dataset, tmp_path / "dataset")


def inspect(*arguments):
    return run_command(inspect_dataset.main, list(arguments), name="inspect_dataset")


def test_tables_are_printed_and_written_with_figures(dataset, capsys):
    assert inspect(f"--dataset={dataset}") == 0
    printed = capsys.readouterr().out
    assert "what each stage kept" in printed
    assert "4 problems" in printed
    assert str(dataset / "inspection" / "index.html") in printed
    summary = json.loads((dataset / "inspection" / "summary.json").read_text())
    assert summary["filterability"]["original"]["problems"] == 4
    assert summary["pass_rates"] == planted.PASS_RATES
    assert summary["generation"]["correctness"]["with_accepted_set"] == 1
    assert summary["totals"]["references"] == 24
    page = (dataset / "inspection" / "index.html").read_text()
    assert "Test generation by campaign (App. B.4, Table 12)" in page
    assert summary["references"]["planted/a"] == {}, "no optimization test ranks the references of these problems"
    pictures = {path.name for path in (dataset / "inspection").glob("*.png")}
    assert pictures == set(inspect_dataset.PAGE_FIGURES.values())
    assert all(name in page for name in pictures)


def test_a_dataset_of_tests_alone_shows_what_it_has(tmp_path, capsys):
    rows = [planted.as_object(planted.problem(name, statement=f"Add the numbers of list {name}.")) for name in "ab"]
    path = tmp_path / "set.jsonl"
    path.write_text("".join(json.dumps({**row, "solutions": []}) + "\n" for row in rows))
    output = tmp_path / "dataset"
    run_quietly("--source=jsonl", f"--input={path}", f"--output={output}", "--tests_only", "--similar=1")
    capsys.readouterr()
    assert inspect(f"--dataset={output}") == 0
    printed = capsys.readouterr().out
    assert "characters of input and output" in printed
    assert "durations of tests" not in printed
    page = (output / "inspection" / "index.html").read_text()
    assert {path.name for path in (output / "inspection").glob("*.png")} == {"sizes.png"}
    assert 'src="sizes.png"' in page
    assert page.count("<img") == 1
    assert "nan" not in page


def test_several_datasets_are_compared_by_sizes_and_durations(dataset, finished_dataset, tmp_path):
    output = tmp_path / "compared"
    assert inspect(f"--dataset={dataset},{finished_dataset}", f"--output={output}") == 0
    summary = json.loads((output / "summary.json").read_text())
    assert summary["sizes"]["dataset: original"]["tests"] == 8
    assert summary["durations"][finished_dataset.name] == summary["durations"]["dataset"]
    assert summary["durations"]["dataset"]["executions"] == 48
    assert summary["durations"]["dataset"]["above_1_s"] == pytest.approx(2 / 6)
    page = (output / "index.html").read_text()
    assert {path.name for path in output.glob("*.png")} == set(inspect_dataset.COMPARISON_FIGURES.values())
    assert all(title in page for title in inspect_dataset.COMPARISON_FIGURES)


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
