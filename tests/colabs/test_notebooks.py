"""The notebooks run from top to bottom, with small numbers in their cell tagged `parameters`."""

import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).parents[2]
SMALL = {
    "simulator": "PROBLEMS, TESTS, REFERENCES = 12, 8, 9\nSTEPS, WINDOW = 30, 5",
    "reward_shapes": "POINTS = 21",
    "noise_study": "TRIALS = 30",
    "evaluation": "PROBLEMS, TESTS, REFERENCES = 6, 5, 6",
    "calibration": "PROBLEMS, TESTS, PROGRAMS = 4, 5, 6",
}


@pytest.mark.parametrize("name", SMALL)
def test_the_notebook_runs_and_shows_figures(name):
    book = nbformat.read(ROOT / "colabs" / f"{name}.ipynb", as_version=4)
    nbformat.validate(book)
    parameters = [cell for cell in book.cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(parameters) == 1
    parameters[0].source = SMALL[name]
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert not [output for output in outputs if output.get("name") == "stderr"]


@pytest.mark.parametrize("name", SMALL)
def test_the_notebook_installs_what_is_missing_and_is_stored_without_outputs(name):
    book = nbformat.read(ROOT / "colabs" / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)
    assert "install" in book.cells[1].metadata.get("tags", [])
