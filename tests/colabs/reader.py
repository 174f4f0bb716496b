"""A reader's machine: a folder with a wheel and the notebooks, and a Python that has every package but ours."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import venv

import nbformat
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).parents[2]
OURS = ("optimrl_jax", "beam_pipelines", "sandbox", "configs")
KERNEL = "reader"


class Reader:
    """Builds the wheel and the Python once; the first notebook installs the wheel, as its own cell does it.

    Args:
      directory: to build and to run in.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.here, self._directory = directory / "downloads", directory
        self.here.mkdir()
        self._build_wheel(directory / "source")
        for path in (ROOT / "colabs").glob("*.ipynb"):
            shutil.copy(path, self.here)
        self.python = self._make_python()
        kernel = directory / "kernels" / KERNEL
        kernel.mkdir(parents=True)
        argv = [str(self.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": KERNEL, "language": "python"}))

    def run(self, name: str, *, parameters: str = "", timeout_s: int = 300) -> nbformat.NotebookNode:
        """Execute a notebook from its first to its last cell, with other numbers in its cell tagged `parameters`."""
        book = nbformat.read(self.here / f"{name}.ipynb", as_version=4)
        nbformat.validate(book)
        for cell in book.cells:
            if parameters and "parameters" in cell.metadata.get("tags", []):
                cell.source = parameters
        os.environ |= {"JUPYTER_PATH": str(self._directory), "PIP_NO_INDEX": "1"}
        place = {"metadata": {"path": str(self.here)}}
        NotebookClient(book, timeout=timeout_s, kernel_name=KERNEL, resources=place).execute()
        return book

    def _build_wheel(self, source: pathlib.Path) -> None:
        for name in OURS:
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
            shutil.copy(ROOT / name, source)
        options = ["--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={self.here}"]
        subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(source)], check=True, capture_output=True)

    def _make_python(self) -> pathlib.Path:
        """Make an environment that sees the packages of this one, by links, and nothing of ours."""
        links = self._directory / "packages"
        links.mkdir()
        for path in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
            if "optimrl" not in path.name and path.suffix != ".pth":
                (links / path.name).symlink_to(path)
        environment = self._directory / "environment"
        venv.create(environment, with_pip=False, symlinks=True)
        (site,) = environment.glob("lib/python*/site-packages")
        (site / "packages.pth").write_text(f"{links}\n")
        return environment / "bin" / "python"
