"""The pages hold together: links lead somewhere, rooms are described, the picture is what its script draws."""

import dataclasses
import importlib
import importlib.util
import json
import re
import subprocess
import tomllib

import pytest
import yaml

from beam_pipelines.options import BuildOptions
from beam_pipelines.sources import jsonl
from optimrl_jax.settings import Settings
from tests import source
from tests.benchmarks import readme

PAGES = sorted(
    path
    for path in source.ROOT.rglob("*.md")
    if not {".venv", ".ecosystem", "runs", "build", ".hypothesis"} & set(path.relative_to(source.ROOT).parts)
)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#]+)(?:#[^)]*)?\)")
SECTIONS = [field for field in dataclasses.fields(Settings) if dataclasses.is_dataclass(field.type)]
# `--config.section.field=value` and `section.field` in backticks.
FIELD = re.compile(r"(?:--config\.|`)(\w+)\.(\w+)(?==|`)")
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


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_settings_that_are_named_exist(page):
    fields = {field.name: {own.name for own in dataclasses.fields(field.type)} for field in SECTIONS}
    named = {(section, name) for section, name in FIELD.findall(page.read_text()) if section in fields}
    unknown = [f"{section}.{name}" for section, name in named if name not in fields[section]]
    # Files that jobs write, such as metrics.jsonl, and not fields of a section of that name.
    unknown = [name for name in unknown if not name.endswith((".json", ".jsonl"))]
    # Some sections have the name of a package, whose parts are named the same way.
    assert not [name for name in unknown if not (is_part_of("optimrl_jax", name) or is_part_of("sandbox", name))]


def is_part_of(package, name):
    """Whether `name` is a module of the package, or something that a module of it defines."""
    module, _, attribute = name.rpartition(".")
    module = module if module.split(".")[0] == package else f"{package}.{module}"
    if importlib.util.find_spec(module) is None:
        return False
    return hasattr(importlib.import_module(module), attribute) or bool(
        importlib.util.find_spec(f"{module}.{attribute}")
    )


def test_the_judges_examples_run(capsys):
    examples = re.findall(r"```python\n(.*?)```", (source.ROOT / "docs" / "judges.md").read_text(), flags=re.DOTALL)
    for example in examples:
        exec(re.sub(r'connect\("docker", workers=\d\)', 'connect("local", workers=1)', example), {})
    assert len(examples) == 2
    assert capsys.readouterr().out.count("success") == 4


def test_the_record_of_the_dataset_page_is_one():
    (example,) = re.findall(r"```json\n(.*?)```", (source.ROOT / "docs" / "datasets.md").read_text(), flags=re.DOTALL)
    problem = jsonl.parse_object("page", json.loads(example), BuildOptions())
    assert (problem.id, len(problem.tests), len(problem.solutions), len(problem.generators)) == ("double", 1, 2, 1)


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


@pytest.mark.parametrize("package", ["beam_pipelines", "sandbox"])
def test_every_folder_of_a_package_is_described(package):
    text = (source.ROOT / "docs" / "architecture.md").read_text()
    folders = {path.parent.name for path in (source.ROOT / package).glob("*/*") if "__" not in str(path)}
    assert [name for name in sorted(folders) if f"`{name}/`" not in text] == []


def test_the_list_of_pages_has_every_page():
    listed = LINK.findall((source.ROOT / "docs" / "README.md").read_text())
    assert {path.name for path in (source.ROOT / "docs").glob("*.md")} - {"README.md"} <= set(listed)
    assert len(listed) == len(set(listed))


def test_every_extra_command_and_target_is_explained():
    project = tomllib.loads((source.ROOT / "pyproject.toml").read_text())["project"]
    page = (source.ROOT / "docs" / "installation.md").read_text()
    named = [*project["scripts"], *project["optional-dependencies"].keys() - {"dev"}]
    assert [name for name in named if f"`{name}`" not in page] == []
    (targets,) = re.findall(r"^\.PHONY: (.*)$", (source.ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    contributing = (source.ROOT / "CONTRIBUTING.md").read_text()
    assert [name for name in targets.split() if f"make {name}" not in contributing] == []


def test_the_picture_is_what_its_script_draws():
    script = source.ROOT / "docs" / "draw_data_flow.py"
    spec = importlib.util.spec_from_file_location("draw_data_flow", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert script.with_name("data_flow.svg").read_text() == module.picture()


def test_runs_are_compared_with_the_tables_of_the_readme(tmp_path):
    stated = readme.stated_rows((source.ROOT / "README.md").read_text())
    assert all(len(row) == len(readme.columns(name)) for name, row in stated.items())
    inside = stated["GRPO, ranked p30"][0][0] / 100
    means = {"p100": inside, "p50": inside, "p30": 0.01, "p10": 0.4}
    interval = {tau: [0.0, 1.0] for tau in means}
    scores, intervals = {"sft": means, "grpo": means}, {"sft": interval, "grpo": interval}
    quickstart = {"pass@1": scores, "interval": intervals, "pass@10": scores, "interval@10": intervals}
    study = {score: {"per_test_top_30": {"gain": {"mean": 1.0, "half_width": 2.0}}} for score in readme.STUDY_SCORES}
    for name, summary in (("quickstart", quickstart), ("study", {"scores": study})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps(summary))
    found = readme.found_rows(tmp_path)
    assert readme.markdown("Ranked p30", found["Ranked p30"][:1]) == "| Ranked p30 | +1.0 [-1.0, +3.0] |"
    figures = readme.compared(stated, found)
    assert figures["cells"] == 20
    assert figures["outside"]["GRPO, ranked p30, p30"] == 1.0
    assert figures["outside"]["SFT, pass@10, p30"] == 1.0
    assert figures["outside"]["Ranked p30, pass@1 p30"] == 1.0
    assert "GRPO, ranked p30, p100" not in figures["outside"]


@pytest.mark.parametrize("name", ["train.slurm", "train.yaml", "train.Dockerfile"])
def test_files_for_clusters_parse_and_name_what_is_there(name):
    path = source.ROOT / "docs" / "deploy" / name
    if name.endswith(".slurm"):
        subprocess.run(["bash", "-n", str(path)], check=True)
    elif name.endswith(".yaml"):
        assert [document["kind"] for document in yaml.safe_load_all(path.read_text())] == ["Service", "Job"]
    else:
        copied = [
            word for line in re.findall(r"^COPY (.*)", path.read_text(), re.MULTILINE) for word in line.split()[:-1]
        ]
        assert copied
        assert all((source.ROOT / word).exists() for word in copied)
