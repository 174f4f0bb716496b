"""Environments of other people's packages, made once and kept: what `make test-ecosystem` runs our output through.

Each is a virtual environment in `runs/ecosystem/NAME`, made anew where its packages change. The variable
`OPTIMRL_TORCH` says what pip is asked for as torch, such as `torch==2.13.0+cpu` where pip finds that.
"""

import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "runs" / "ecosystem"
STAMP = "packages.txt"
TORCH = os.environ.get("OPTIMRL_TORCH", "torch")
PIP_LIMIT_S = 1800


def python_with(name: str, *packages: str) -> pathlib.Path:
    """Return the interpreter of an environment with `packages`; skip the test, with the reason, where pip has none."""
    directory = FOLDER / name
    python, stamp = directory / "bin" / "python", directory / STAMP
    wanted = "\n".join(packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *packages]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=PIP_LIMIT_S, check=False)
    if installed.returncode:
        pytest.skip(f"{name}: pip install failed: {installed.stderr.strip().splitlines()[-1][:200]}")
    stamp.write_text(wanted)
    return python


def run_script(python: pathlib.Path, script: pathlib.Path, *arguments: str, limit_s: float = 600) -> str:
    """Run a script of this folder in an environment of its own and return what it printed; fail with its errors."""
    # Nothing of this repository is importable there: what it reads is what we wrote on disk or answer over HTTP.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [str(python), str(script), *arguments],
        capture_output=True, text=True, timeout=limit_s, check=False, env=variables, cwd=script.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def run_module(python: pathlib.Path, module: str, *arguments: str, limit_s: float = 900) -> str:
    """Run a module of ours in an environment that has what we need and return what it printed; fail with its errors."""
    ours = ("PYTHON", "JAX_", "XLA_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    variables |= {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    command = [str(python), "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False, env=variables)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def packages_of(extra: str) -> tuple[str, ...]:
    """Return the packages of others that an extra of pyproject.toml asks for."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found: list[str] = []
    for requirement in extras[extra]:
        name, _, inner = requirement.rstrip("]").partition("[")
        nested = inner.split(",") if name == "optimrl-jax" else []
        found += [package for other in nested for package in packages_of(other)] if nested else [requirement]
    return tuple(dict.fromkeys(found))
