"""The pages hold together: links lead somewhere, rooms are described, the picture is what its script draws."""

import importlib.util
import re

import pytest

from tests import source

PAGES = sorted(
    path
    for path in source.ROOT.rglob("*.md")
    if not {".venv", "runs", "build", ".hypothesis"} & set(path.relative_to(source.ROOT).parts)
)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#]+)(?:#[^)]*)?\)")
MODULE = re.compile(r"python3? -m ([\w.]+)")


def title(path):
    return str(path.relative_to(source.ROOT))


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_links_lead_to_files_of_the_repository(page):
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_commands_name_modules_that_exist(page):
    names = {name.rstrip(".") for name in MODULE.findall(page.read_text())}
    ours = {name for name in names if name.split(".")[0] in (*source.SHIPPED, "configs", "tests")}
    # Installed under this name, see pyproject.toml; NAME stands for any.
    ours -= {"optimrl_jax.configs", "tests.benchmarks.NAME"}
    assert not [name for name in ours if importlib.util.find_spec(name) is None]


def test_every_room_is_described():
    text = (source.ROOT / "docs" / "architecture.md").read_text()
    rooms = {path.parent.name for path in (source.ROOT / "optimrl_jax").glob("*/__init__.py")}
    described = set(re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)) - {
        "sandbox",
        "beam_pipelines",
        "optimrl_jax",
    }
    assert rooms - described == set()
    assert described - rooms == {"configs", "colabs", "tests"}


def test_the_picture_is_what_its_script_draws():
    script = source.ROOT / "docs" / "draw_data_flow.py"
    spec = importlib.util.spec_from_file_location("draw_data_flow", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert script.with_name("data_flow.svg").read_text() == module.picture()
