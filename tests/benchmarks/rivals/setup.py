"""Edge: makes the environment of a rival, `python -m tests.benchmarks.rivals.setup trl|tunix [DIR]`; runs/ by default.

A virtual environment of its own with the releases that the comparison was written for; nothing of it is a dependency of
this project. On machines without a GPU a CPU build of torch does, such as `--torch=torch==2.13.0+cpu` where pip finds
one.
"""

import argparse
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).parents[3]
PACKAGES = {
    "trl": ("transformers==5.24.0", "trl==1.16.0", "accelerate==1.15.0", "datasets==5.2.0"),
    "tunix": ("google-tunix==0.1.7", "transformers==5.12.1"),
}
# So that both sides have the same compiler.
SHARED = ("jax", "jaxlib", "flax")
RIVALS = {name: ROOT / "runs" / name for name in PACKAGES}


def python_of(directory: pathlib.Path) -> pathlib.Path:
    return directory / "bin" / "python"


def packages_of(rival: str, *, torch: str) -> list[str]:
    """List what pip is asked for."""
    if rival == "trl":
        return [torch, *PACKAGES[rival]]
    locked = (ROOT / "requirements.lock").read_text().splitlines()
    return [*PACKAGES[rival], *(line for line in locked if line.split("==")[0] in SHARED)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the environment of the comparison with a rival.")
    parser.add_argument("rival", choices=sorted(PACKAGES))
    parser.add_argument("directory", nargs="?", type=pathlib.Path)
    parser.add_argument("--torch", default="torch", help="what pip is asked for as torch")
    flags = parser.parse_args()
    directory = flags.directory or RIVALS[flags.rival]
    venv.create(directory, with_pip=True)
    packages = packages_of(flags.rival, torch=flags.torch)
    subprocess.run([python_of(directory), "-m", "pip", "install", *packages], check=True)
    print(f"ready: python -m tests.benchmarks.learner --{flags.rival}={directory}", file=sys.stderr)


if __name__ == "__main__":
    main()
