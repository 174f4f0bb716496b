"""Edge: what a finished dataset says about its own origin: revision, libraries, host, measurement, options, counts."""

import dataclasses
import importlib.metadata
import pathlib
import platform
import subprocess
from collections.abc import Mapping, Sequence

from beam_pipelines.options import BuildOptions
from beam_pipelines.report import costs

LIBRARIES = ("apache-beam", "array-record", "numpy", "tensorflow-datasets")


def build_manifest(
    options: BuildOptions,
    *,
    splits: Mapping[str, int],
    measured_under: Sequence[Mapping[str, str]],
    cost: costs.Cost,
) -> dict[str, object]:
    """Plain values for `manifest.json`; `measured_under` lists every state under which durations were measured."""
    return {
        "revision": code_revision(pathlib.Path(__file__).parent),
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "host": {"machine": platform.machine(), "system": f"{platform.system()} {platform.release()}"},
        "measured_under": list(measured_under),
        "options": dataclasses.asdict(options),
        "splits": dict(splits),
        "cost": dataclasses.asdict(cost),
        "cost_at_paper_scale": dataclasses.asdict(costs.scale_cost(cost)),
    }


def code_revision(directory: pathlib.Path) -> str:
    """The git revision of the code, marked where files were changed since; "unknown" outside a checkout."""
    try:
        command = ["git", "-C", str(directory), "describe", "--always", "--abbrev=40", "--dirty"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
