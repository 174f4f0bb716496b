"""Edge: what a finished dataset says about its own origin: revision, libraries, host, measurement, options, counts."""

import dataclasses
import hashlib
import importlib.metadata
import json
import pathlib
import platform
import subprocess
from collections.abc import Mapping, Sequence

from etils import epath

from beam_pipelines.options import FREE_OPTIONS, BuildOptions
from beam_pipelines.remote_files import files_below
from beam_pipelines.report import costs

HASHED_BYTES = 1 << 20
LIBRARIES = ("apache-beam", "array-record", "numpy", "tensorflow-datasets")


def build_manifest(
    options: BuildOptions,
    *,
    splits: Mapping[str, int],
    measured_under: Sequence[Mapping[str, str]],
    cost: costs.BuildCost,
    inputs: Mapping[str, str],
    host: Mapping[str, float],
) -> dict[str, object]:
    """Assemble what `manifest.json` says, as plain values.

    Args:
      options: of the build.
      splits: problems by split.
      measured_under: every state of the sandbox under which durations were measured.
      cost: what the build took.
      inputs: SHA-256 of every file that was read.
      host: load before the build and drift of durations until its end, see `runners.host_check`.
    """
    return {
        "revision": code_revision(pathlib.Path(__file__).parent),
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "host": {"machine": platform.machine(), "system": f"{platform.system()} {platform.release()}", **host},
        "inputs": dict(inputs),
        "measured_under": list(measured_under),
        "options": dataclasses.asdict(options),
        "splits": dict(splits),
        "cost": dataclasses.asdict(cost),
        "cost_at_paper_scale": costs.cost_at_scale(cost.mean_s),
    }


def code_revision(directory: pathlib.Path) -> str:
    """Return the git revision of a directory's code, marked where files were changed since.

    "unknown" outside a checkout, or where git is missing.
    """
    try:
        command = ["git", "-C", str(directory), "describe", "--always", "--abbrev=40", "--dirty"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def identity_of(options: BuildOptions, inputs: Mapping[str, str]) -> str:
    """Return 16 hexadecimal digits that name what decides the contents of a build.

    They name the directory of its records, so that a build with other options or inputs never picks up these.
    """
    named = {name: value for name, value in dataclasses.asdict(options).items() if name not in FREE_OPTIONS}
    return hash_text(json.dumps([named, dict(inputs)], sort_keys=True))[:16]


def hash_inputs(options: BuildOptions) -> dict[str, str]:
    """Return the SHA-256 of every file that a build reads, by name; a directory gives all its files.

    Files may lie wherever `epath` reads. What is not there is left to the source, which says what it expects.
    """
    named = [options.input, options.generators, options.checkers, options.testlib, *options.evaluation_sets.split(",")]
    hashes = {}
    for name in filter(None, named):
        root = epath.Path(name)
        hashes |= {str(path): _hash_file(path) for path in files_below(root)}
    return hashes


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _hash_file(path: epath.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASHED_BYTES):
            digest.update(block)
    return digest.hexdigest()
