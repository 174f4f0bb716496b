"""The notebooks run as a reader runs them: in a folder of their own, from a wheel that their first cell installs."""

import json
import subprocess

import nbformat
import pytest

from optimrl_jax.analysis.example import example_evaluation
from optimrl_jax.evaluation import records
from tests.colabs.reader import ROOT, Reader

# Small numbers for the cell tagged `parameters`, and the figures that a reader sees.
SMALL = {
    "calibration": ("PROBLEMS, TESTS, PROGRAMS = 4, 5, 6", 3),
    "dataset": ("PROBLEMS = 2", 3),
    "evaluation": ("PROBLEMS, TESTS, REFERENCES = 6, 5, 6", 12),
    "noise_study": ("TRIALS = 30", 3),
    "quickstart": ("", 5),
    "reward_shapes": ("POINTS = 21", 2),
    "simulator": ("PROBLEMS, TESTS, REFERENCES = 12, 8, 9\nSTEPS, WINDOW = 30, 5", 10),
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return Reader(tmp_path_factory.mktemp("reader"))


@pytest.fixture(autouse=True)
def finished_run(tmp_path, monkeypatch):
    """A quickstart run to look at: what its jobs leave behind, with made-up programs."""
    evaluation, grpo = tmp_path / "evaluation", tmp_path / "grpo"
    evaluation.mkdir(), grpo.mkdir()
    records.write_evaluation(evaluation, example_evaluation(problems=6, tests=5, references=6))
    scores = {name: {"p100": 0.5, "p30": 0.25} for name in ("before", "after")}
    intervals = {name: dict.fromkeys(row, (0.1, 0.9)) for name, row in scores.items()}
    (tmp_path / "summary.json").write_text(json.dumps({"pass@1": scores, "interval": intervals}))
    steps = [{"step": step, "reward": step / 9, "correct_share": 0.5} for step in range(9)]
    (grpo / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in steps))
    monkeypatch.setenv("OPTIMRL_QUICKSTART", str(tmp_path))


@pytest.mark.parametrize("name", SMALL)
def test_the_notebook_runs_and_shows_its_figures(reader, name):
    parameters, figures = SMALL[name]
    book = reader.run(name, parameters=parameters)
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == figures
    assert not [output for output in outputs if output.get("name") == "stderr"]


@pytest.mark.parametrize("name", SMALL)
def test_the_notebook_is_stored_without_outputs_with_a_badge_and_a_sentence_for_each_figure(name):
    book = nbformat.read(ROOT / "colabs" / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)
    assert "colab-badge.svg" in book.cells[0].source
    assert "install" in book.cells[1].metadata["tags"]
    texts = [cell.source for cell in book.cells if cell.cell_type == "markdown"]
    assert [text for text in texts if len(text.split("\n\n", 1)) < 2] == []


def test_every_notebook_is_tested_pictured_and_linked():
    names = {path.stem for path in (ROOT / "colabs").glob("*.ipynb")}
    assert names == set(SMALL)
    readme = (ROOT / "README.md").read_text()
    readers = (ROOT / "docs" / "readers.md").read_text()
    for name in names:
        assert (ROOT / "colabs" / "pictures" / f"{name}.png").stat().st_size < 60_000, name
        assert f"colabs/{name}.ipynb" in readme, name
        assert f"colabs/{name}.ipynb" in readers, name
        assert f"colabs/pictures/{name}.png" in readme, name


def test_the_install_cell_says_in_one_line_what_is_missing(reader, tmp_path):
    cell = nbformat.read(ROOT / "colabs" / "calibration.ipynb", as_version=4).cells[1].source
    # Another notebook may have installed the package here already: ask for one that nobody has.
    absent = cell.replace('"sandbox"', '"a_package_that_is_not_there"').replace('"optimrl-jax"', '"optimrl-absent"')
    (tmp_path / "cell.py").write_text(absent)
    command, environment = [str(reader.python), "cell.py"], {"PIP_NO_INDEX": "1"}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(
        "optimrl-absent cannot be installed: put a wheel beside this notebook"
    )
