"""The import rules of the architecture, read from the source: who may import whom, and which modules are pure."""

import ast
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("sandbox", "beam_pipelines", "optimrl_jax", "configs", "tests", "colabs")
SHIPPED = sorted(path for name in PACKAGES[:3] for path in (ROOT / name).rglob("*.py"))
IO_LIBRARIES = {
    "apache_beam", "asyncio", "docker", "fastapi", "grain", "httpx", "importlib", "io", "logging", "multiprocessing",
    "orbax", "os", "pathlib", "pyarrow", "requests", "rich", "select", "shutil", "signal", "socket", "sqlite3",
    "subprocess", "tempfile", "tensorboardX", "tensorflow_datasets", "threading", "time", "tokenizers", "urllib",
    "uvicorn", "zmq",
}  # fmt: skip
PURE_FOLDERS = (
    "environment",
    "rewards",
    "simulator",
    "model",
    "training",
    "rollout",
    "grpo",
    "actors",
    "distributed",
    "planning",
    "evaluation",
    "data",
)
BEAM_MAY_IMPORT = ("sandbox.client", "sandbox.protocol", "optimrl_jax.environment", "optimrl_jax.arrays")


def imports_of(path: pathlib.Path) -> set[str]:
    """Dotted names of everything a module imports, `from a import b` counted as `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def package_of(name: str) -> str:
    return name.split(".")[0]


def is_edge(path: pathlib.Path) -> bool:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").startswith("Edge: ")


def name_of(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SHIPPED, ids=name_of)
def test_packages_import_only_what_the_design_allows(path):
    owner = path.relative_to(ROOT).parts[0]
    for name in imports_of(path):
        target = package_of(name)
        if target not in PACKAGES or target == owner:
            continue
        if owner == "beam_pipelines":
            assert name.startswith(BEAM_MAY_IMPORT), f"{name_of(path)} imports {name}"
        else:
            assert owner == "optimrl_jax", f"{name_of(path)} imports {name}"
            assert name.startswith(("sandbox.client", "sandbox.protocol")), f"{name_of(path)} imports {name}"
            assert is_edge(path), f"{name_of(path)} imports {name} but its docstring does not begin with 'Edge: '"


PURE = [
    path
    for folder in PURE_FOLDERS
    for path in sorted((ROOT / "optimrl_jax" / folder).rglob("*.py"))
    if not is_edge(path)
]


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_pure_modules_import_no_io_library(path):
    offenders = {name for name in imports_of(path) if package_of(name) in IO_LIBRARIES}
    assert not offenders, f"{name_of(path)} imports {sorted(offenders)}: make it pure or say 'Edge: ' in its docstring"


def test_the_runner_uses_the_standard_library_and_what_travels_with_it():
    for path in (ROOT / "sandbox" / "runner.py", *(ROOT / "sandbox" / "inside").glob("*.py")):
        foreign = {name for name in imports_of(path) if package_of(name) not in sys.stdlib_module_names}
        assert all(name.startswith("sandbox.inside.") for name in foreign), name_of(path)


@pytest.mark.parametrize("path", SHIPPED, ids=name_of)
def test_modules_stay_small(path):
    assert len(path.read_text().splitlines()) <= 400
