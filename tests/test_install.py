"""What is installed: console commands, extras, versions, and the configurations inside the package."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import optimrl_jax
from optimrl_jax import quickstart
from optimrl_jax.jobs import scripts
from tests import source

PROJECT = tomllib.loads((source.ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def closure(extra):
    """Names of all packages that an extra asks for, extras of our own followed."""
    names = set()
    for requirement in EXTRAS[extra]:
        name, inner = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", requirement).groups()
        if name == PROJECT["name"]:
            names.update(*(closure(other) for other in inner.split(",")))
        else:
            names.add(name)
    return names


@pytest.mark.parametrize("target", PROJECT["scripts"].values(), ids=PROJECT["scripts"])
def test_each_console_command_runs_a_module_that_exists(target):
    module, _, name = target.partition(":")
    assert module == scripts.__name__
    command = getattr(scripts, name)
    assert importlib.util.find_spec(*command.args) is not None


def test_the_sandbox_alone_needs_neither_jax_nor_beam():
    assert not closure("sandbox") & {"jax", "jaxlib", "flax", "apache-beam", "tensorflow-datasets"}


def test_pipelines_need_no_learner_and_the_learner_no_beam():
    assert not closure("pipelines") & {"flax", "optax", "orbax-checkpoint", "grain", "tokenizers"}
    assert "apache-beam" not in closure("learner")


def test_everything_is_locked():
    locked = {
        re.split("==", line)[0].lower().replace("_", "-")
        for line in (source.ROOT / "requirements.lock").read_text().splitlines()
    }
    assert {name.lower().replace("_", "-") for name in closure("dev")} <= locked


def test_one_version_stands_everywhere():
    for name in ("CITATION.cff", "CHANGELOG.md"):
        assert optimrl_jax.__version__ in (source.ROOT / name).read_text(), name


@pytest.mark.parametrize(
    ("program", "missing", "extra"),
    [
        ("scripts.train()", "flax", "learner"),
        ("scripts.quickstart()", "ml_collections", "all"),
        ("sys.exit(processes.run_job_process('beam_pipelines.build_dataset', []))", "apache_beam", "pipelines"),
    ],
)
def test_a_command_without_its_library_names_the_extra(program, missing, extra, tmp_path):
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('No module named {missing}', name='{missing}')")
    program = f"import sys; from optimrl_jax.jobs import processes, scripts; {program}"
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{source.ROOT}"}
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].endswith(f"expected `pip install 'optimrl-jax[{extra}]'`")
    assert "Traceback" not in ended.stderr


def test_the_quickstart_passes_over_finished_jobs_and_ends_with_the_code_of_the_first_that_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = [result for result, *_ in quickstart.steps_of("ranked") if result]
    assert [result.parent.name for result in done] == ["dataset", "sft", "grpo"]
    for result in done:
        result.parent.mkdir(parents=True)
        result.touch()
    program = "import sys; from optimrl_jax import quickstart; sys.exit(quickstart.main([]))"
    environment = os.environ | {"PYTHONPATH": str(source.ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert ended.returncode == 2
    assert "evaluate: " in ended.stderr
    assert not list(pathlib.Path("runs/quickstart/grpo").glob("checkpoints"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A directory outside the checkout, and an environment in which the files of a wheel are all there is of ours."""
    directory = tmp_path_factory.mktemp("installed")
    build = ["setup.py", "-q", "egg_info", f"--egg-base={directory}", "build_py", f"--build-lib={directory / 'lib'}"]
    subprocess.run([sys.executable, *build], cwd=source.ROOT, check=True, capture_output=True)
    return directory, os.environ | {"PYTHONPATH": str(directory / "lib")}


def test_what_ships_has_its_data_files(installed):
    library = installed[0] / "lib"
    for pattern in ("optimrl_jax/py.typed", "optimrl_jax/configs/base.py", "sandbox/image/compose.yaml"):
        assert (library / pattern).is_file(), pattern
    assert list(library.glob("beam_pipelines/sources/mini/**/*.tmpl"))
    assert list(library.glob("optimrl_jax/simulator/*.csv"))


def test_the_sandbox_of_a_wheel_is_imported_without_jax_and_beam(installed):
    directory, environment = installed
    program = "import sys; from sandbox import client; print({'jax', 'flax', 'apache_beam'} & {*sys.modules})"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"


@pytest.mark.parametrize("flag", [["--config=configs/quickstart.py"], ["--config", "configs/qwen7b.py:mc"]])
def test_configurations_are_found_outside_a_checkout(installed, flag):
    directory, environment = installed
    command = [sys.executable, "-m", "optimrl_jax.train", *flag, "--config.grpo.steps=0", "--workdir=w"]
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith("train: grpo.steps = 0: expected")


def test_help_outside_a_checkout_names_the_command_that_lists_configurations_there(installed):
    directory, environment = installed
    command = [sys.executable, "-m", "optimrl_jax.train", "--help"]
    shown = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True).stdout
    assert "python -m optimrl_jax.configs [MODEL]" in shown
    command[2:] = ["optimrl_jax.configs", "qwen7b"]
    listed = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True).stdout
    assert "ranked_p30" in listed


def test_a_file_of_the_users_own_may_build_on_the_installed_ones(installed):
    directory, environment = installed
    (directory / "mine.py").write_text(
        "from configs import base\n\n\ndef get_config():\n    config = base.get_config()\n"
        "    config.grpo.problems = -3\n    return config\n"
    )
    command = [sys.executable, "-m", "optimrl_jax.train", "--config=mine.py", "--workdir=w"]
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith("train: grpo.problems = -3: expected")
