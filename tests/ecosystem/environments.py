"""Environments of other people's packages, made once and kept: what `make test-ecosystem` runs our output through.

Each is a virtual environment in `runs/ecosystem/NAME`, made anew where its packages change. The variable
`OPTIMRL_TORCH` says what pip is asked for as torch, such as `torch==2.13.0+cpu` where pip finds that. A package that
cannot be had, or not within `OPTIMRL_PIP_LIMIT_S` for all of them, skips the tests that need it.
"""

import os
import pathlib
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "runs" / "ecosystem"
STAMP = "packages.txt"
TORCH = os.environ.get("OPTIMRL_TORCH", "torch")
# Readers of exported weights and adapters; transformers asks for accelerate where it reads GGUF.
TRANSFORMERS = (TORCH, "transformers", "peft", "accelerate", "safetensors", "gguf")
# All installations of a session together: where packages come slowly, the rest is skipped.
PIP_LIMIT_S = float(os.environ.get("OPTIMRL_PIP_LIMIT_S", "1800"))
LATEST_S = time.monotonic() + PIP_LIMIT_S
# Environments that could not be made in this session, with the reason.
ABSENT: dict[str, str] = {}


def python_with(name: str, *packages: str) -> pathlib.Path:
    """Return the interpreter of an environment with `packages`; skip the test, with the reason, where pip has none."""
    directory = FOLDER / name
    python, stamp = directory / "bin" / "python", directory / STAMP
    wanted = "\n".join(packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    if name not in ABSENT:
        ABSENT[name] = _install(directory, packages)
    if ABSENT[name]:
        pytest.skip(f"{name}: {ABSENT[name]}")
    stamp.write_text(wanted)
    return python


def _install(directory: pathlib.Path, packages: Sequence[str]) -> str:
    """Make an environment anew; return the reason where it cannot be had, else an empty text."""
    left_s = LATEST_S - time.monotonic()
    if left_s <= 0:
        return f"no time left of {PIP_LIMIT_S:g} s for installations (OPTIMRL_PIP_LIMIT_S)"
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(directory)],
        [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages],
    )
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=left_s, check=False)
        except subprocess.TimeoutExpired:
            return f"{' '.join(command[1:4])} took longer than {left_s:.0f} s (OPTIMRL_PIP_LIMIT_S)"
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "no word why").splitlines()[-1]
            return f"{' '.join(command[1:4])} failed: {last[:200]}"
    return ""


def run_script(
    python: pathlib.Path,
    script: pathlib.Path,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    limit_s: float = 600,
) -> str:
    """Run a script of this folder in an environment of its own and return what it printed; fail with its errors."""
    # Nothing of this repository is importable there: what it reads is what we wrote on disk or answer over HTTP.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own |= {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false", **(variables or {})}
    done = subprocess.run(
        [str(python), str(script), *arguments],
        capture_output=True, text=True, timeout=limit_s, check=False, env=own, cwd=script.parent,
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
