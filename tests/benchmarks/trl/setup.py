"""Edge: makes the environment of the comparison: `python -m tests.benchmarks.trl.setup [DIR]`, runs/trl by default.

A virtual environment of its own with the releases that the comparison was written for; nothing of it is a dependency of
this project. On machines without a GPU a CPU build of torch does, such as `--torch=torch==2.13.0+cpu` where pip finds
one.
"""

import argparse
import pathlib
import subprocess
import sys
import venv

DIRECTORY = pathlib.Path(__file__).parents[3] / "runs" / "trl"
PACKAGES = ("transformers==5.24.0", "trl==1.16.0", "accelerate==1.15.0", "datasets==5.2.0")


def python_of(directory: pathlib.Path) -> pathlib.Path:
    return directory / "bin" / "python"


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the environment of the comparison with TRL.")
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=DIRECTORY)
    parser.add_argument("--torch", default="torch", help="what pip is asked for as torch")
    flags = parser.parse_args()
    venv.create(flags.directory, with_pip=True)
    subprocess.run([python_of(flags.directory), "-m", "pip", "install", flags.torch, *PACKAGES], check=True)
    print(f"ready: python -m tests.benchmarks.learner --trl={flags.directory}", file=sys.stderr)


if __name__ == "__main__":
    main()
