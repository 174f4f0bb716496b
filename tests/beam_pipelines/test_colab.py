"""The dataset notebook runs from its first to its last cell."""

import pathlib

import nbclient
import nbformat

NOTEBOOK = pathlib.Path(__file__).parents[2] / "colabs" / "dataset.ipynb"


def test_every_cell_of_the_notebook_runs(finished_dataset, monkeypatch):
    monkeypatch.setenv("DMC_OPTIM", str(finished_dataset))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": NOTEBOOK.parents[1]}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert any("duration-filterable" in output.get("text", "") for output in outputs)
