"""The import rules of the architecture, read from the source: who may import whom, and which modules are pure."""

import sys

import pytest

from tests import source

PACKAGES = (*source.SHIPPED, "configs", "tests", "colabs")
SHIPPED = source.shipped_modules()
IO_LIBRARIES = {
    "apache_beam", "asyncio", "docker", "fastapi", "grain", "httpx", "importlib", "io", "logging", "multiprocessing",
    "orbax", "os", "pathlib", "pyarrow", "requests", "rich", "select", "shutil", "signal", "socket", "sqlite3",
    "subprocess", "tempfile", "tensorboardX", "tensorflow_datasets", "threading", "time", "tokenizers", "urllib",
    "uvicorn", "zmq",
}  # fmt: skip
BEAM_MAY_IMPORT = (
    "sandbox.client", "sandbox.protocol", "optimrl_jax.environment", "optimrl_jax.arrays",
    "optimrl_jax.kinds", "optimrl_jax.jobs.errors", "optimrl_jax.jobs",
)  # fmt: skip


def package_of(name: str) -> str:
    return name.split(".")[0]


def name_of(module: source.Module) -> str:
    return str(module.path.relative_to(source.ROOT))


@pytest.mark.parametrize("module", SHIPPED, ids=name_of)
def test_packages_import_only_what_the_design_allows(module):
    owner = package_of(module.name)
    for name in module.imports:
        target = package_of(name)
        if target not in PACKAGES or target == owner:
            continue
        if owner == "beam_pipelines":
            assert name.startswith(BEAM_MAY_IMPORT), f"{name_of(module)} imports {name}"
        else:
            assert owner == "optimrl_jax", f"{name_of(module)} imports {name}"
            assert name.startswith(("sandbox.client", "sandbox.protocol")), f"{name_of(module)} imports {name}"
            assert module.is_edge, f"{name_of(module)} imports {name} but its docstring does not begin with 'Edge: '"


PURE = [module for module in SHIPPED if package_of(module.name) == "optimrl_jax" and not module.is_edge]


@pytest.mark.parametrize("module", PURE, ids=name_of)
def test_pure_modules_import_no_io_library(module):
    offenders = {name for name in module.imports if package_of(name) in IO_LIBRARIES}
    assert not offenders, (
        f"{name_of(module)} imports {sorted(offenders)}: make it pure or say 'Edge: ' in its docstring"
    )


def test_the_runner_uses_the_standard_library_and_what_travels_with_it():
    travelling = [module for module in SHIPPED if module.name.startswith(("sandbox.inside.", "sandbox.runner"))]
    assert travelling
    for module in travelling:
        foreign = {name for name in module.imports if package_of(name) not in sys.stdlib_module_names}
        assert all(name.startswith("sandbox.inside.") for name in foreign), name_of(module)


@pytest.mark.parametrize("module", SHIPPED, ids=name_of)
def test_modules_stay_small(module):
    assert module.lines <= 400


TESTS = source.modules_of("tests")
# They hold up workers and look into stores in the middle of a run, for which production code has no use.
INSIDE_VIEWS = "tests.sandbox."
# The methods of a named tuple are public in spite of their names.
OUR_PRIVATE_NAMES = {name for module in SHIPPED for name in module.private_names} - {"_replace", "_asdict", "_fields"}


@pytest.mark.parametrize(
    "module", [one for one in SHIPPED + TESTS if not one.name.startswith(INSIDE_VIEWS)], ids=name_of
)
def test_private_names_stay_in_their_module(module):
    offenders = module.foreign_private_names & OUR_PRIVATE_NAMES
    assert not offenders, f"{name_of(module)} reads {sorted(offenders)} of another module: give it a public way"


@pytest.mark.parametrize("module", TESTS, ids=name_of)
def test_nothing_imports_from_a_test_module(module):
    offenders = [name for name in module.imports if any(part.startswith("test_") for part in name.split(".")[:-1])]
    assert not offenders, (
        f"{name_of(module)} imports {offenders}: shared parts belong in conftest or a module beside it"
    )


def test_no_test_imports_from_another_test():
    lent = [
        f"{module.name} imports {name}"
        for module in source.modules_of("tests")
        for name in module.imports
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split(".")[:-1])
    ]
    assert not lent, "what tests share belongs into a module that is no test"


@pytest.mark.parametrize("module", SHIPPED, ids=name_of)
def test_no_module_is_named_like_one_of_the_standard_library(module):
    assert module.name.rpartition(".")[2] not in sys.stdlib_module_names
