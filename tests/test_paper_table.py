"""docs/paper.md tells the truth: every command, notebook, configuration and figure that it names is there."""

import importlib.util
import pathlib
import re

import pytest

from optimrl_jax import environment

ROOT = pathlib.Path(__file__).parents[1]
ROWS = re.findall(
    r"^\| (.+?) \| (.+?) \| (yes|hardware|part|no) \| (.*) \|$", (ROOT / "docs" / "paper.md").read_text(), re.M
)
NAMES = [f"{item}: {what}" for item, what, _, _ in ROWS]
SOURCES = "".join(path.read_text() for path in sorted((ROOT / "optimrl_jax" / "analysis").rglob("*.py")))


def test_the_page_has_every_item_and_says_how_to_get_most():
    states = [state for _, _, state, _ in ROWS]
    assert len(ROWS) >= 121
    assert sum(state in ("yes", "hardware") for state in states) >= 115
    assert all(how for _, _, state, how in ROWS if state != "no")


@pytest.mark.parametrize("how", [how for *_, how in ROWS], ids=NAMES)
def test_what_a_row_names_is_there(how):
    for module in re.findall(r"`python -m ([\w.]+)", how):
        assert importlib.util.find_spec(module), module
    for path in re.findall(r"`(colabs/\w+\.ipynb|configs/\w+\.py)", how):
        assert (ROOT / path).exists(), path
    for row in re.findall(r"`configs/\w+\.py:(\w+)", how):
        assert row == "ROW" or row in environment.PRESETS, row
    for name in re.findall(r"`analyze:(\w+)`", how):
        assert re.search(rf'(TableOf|FigureOf)\(\s*f?"{name}"', SOURCES) or name.startswith("sweep_"), name
