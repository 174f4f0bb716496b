"""How work grows, and against which limit it runs: `python -m tests.benchmarks.scaling --output=DIR`.

Prints one JSON line and draws `scaling.png` in DIR:

- `sweep`: seconds of the simulator's 1,578 environments at 1, 4 and 12 thousand problems, peak memory;
- `decisions`: seconds of the dataset pipeline's own work by number of problems, executions made up;
- `builds`: seconds of whole builds of problems of the embedded corpus, with programs that run;
- `judging`: rollouts judged a second by number of workers.

Each has `exponent`, the slope of the logarithm over that of the size (1: linear), and `limit_share`, how close the
largest size comes to what bounds it: processors that are busy (`sweep`, `decisions`), programs that run (`builds`:
share of the build that waits for the sandbox; `judging`: rate over that of programs back to back on all processors).
`--only=NAME,...` measures some. Other work on the machine disturbs all of them: `load` is that before the first.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from beam_pipelines import build_dataset
from optimrl_jax.evaluation import style
from sandbox import client
from sandbox.protocol import RunRequest
from tests.benchmarks import model_costs, pipeline, simulator
from tests.benchmarks.sandbox import timing

SAMPLES = (1, 4, 16)
BUILDS = (3, 6, 12)
WORKERS = (1, 2, 4)
ROLLOUTS, TESTS = 64, 20
CORES = len(os.sched_getaffinity(0))


def sweep(root: pathlib.Path) -> dict[str, object]:
    found = simulator.scaling(simulator.SCALING)
    sizes = found["sizes"]
    assert isinstance(sizes, list)
    return {
        "size": [one["problems"] for one in sizes],
        "seconds": [one["total_s"] for one in sizes],
        "peak_memory_bytes": [one["peak_memory_bytes"] for one in sizes],
        "exponent": found["exponent"],
        "limit_share": sizes[-1]["cpu_s"] / (CORES * sizes[-1]["total_s"]),
    }


def decisions(root: pathlib.Path) -> dict[str, object]:
    found = [pipeline.measured_apart("at_scale", samples, root) for samples in SAMPLES]
    sizes = [pipeline.SAMPLE_PROBLEMS * samples for samples in SAMPLES]
    seconds = [size / one["records_per_s"] for size, one in zip(sizes, found, strict=True)]
    return {
        "size": sizes,
        "seconds": seconds,
        "problems_per_hour": [3600 * one["records_per_s"] for one in found],
        "peak_memory_bytes": [one["peak_memory_bytes"] for one in found],
        "exponent": model_costs.growth_exponent(sizes, seconds),
        "limit_share": found[-1]["cpu_share"] / CORES,
    }


def builds(root: pathlib.Path) -> dict[str, object]:
    seconds, waiting = [], []
    for problems in BUILDS:
        output = root / f"build_{problems}"
        build_dataset.main(["--source=mini", f"--limit={problems}", f"--output={output}"])
        summary = json.loads((output / "summary.json").read_text())
        seconds.append(summary["wall_s"])
        waiting.append(summary["sandbox"]["waited_s"] / summary["wall_s"])
    return {
        "size": list(BUILDS),
        "seconds": seconds,
        "problems_per_hour": [3600 * size / wall_s for size, wall_s in zip(BUILDS, seconds, strict=True)],
        "exponent": model_costs.growth_exponent(BUILDS, seconds),
        "limit_share": waiting[-1],
    }


def judging(
    root: pathlib.Path, *, backend: str = "docker", workers: Sequence[int] = WORKERS, rollouts: int = ROLLOUTS
) -> dict[str, object]:
    suite = timing.suite_of([timing.ONE_MS_LOOP] * TESTS)
    rates, shares = [], []
    for count in workers:
        with client.connect(backend, workers=count) as sandbox:
            sandbox.upload(suite)
            # The first programs of a worker wait for its container.
            sandbox.run_many([RunRequest(timing.PROGRAM, suite.sha256, seed=-1 - n) for n in range(2 * count)])
            started_s = time.monotonic()
            answers = sandbox.run_many([RunRequest(timing.PROGRAM, suite.sha256, seed=n) for n in range(rollouts)])
            rates.append(rollouts / (time.monotonic() - started_s))
        running_s = float(np.mean([sum(timing.seconds(answer)) for answer in answers]))
        shares.append(rates[-1] * running_s / CORES)
    return {
        "size": list(workers),
        "rollouts_per_s": rates,
        "tests": TESTS,
        "exponent": model_costs.growth_exponent(workers, rates),
        "limit_share": shares[-1],
    }


PARTS: dict[str, Callable[[pathlib.Path], dict[str, object]]] = {
    "sweep": sweep, "decisions": decisions, "builds": builds, "judging": judging,
}  # fmt: skip
AXES = {
    "sweep": ("problems", "seconds"),
    "decisions": ("problems, executions made up", "seconds"),
    "builds": ("problems, programs run", "seconds"),
    "judging": ("workers", "rollouts_per_s"),
}


def draw(found: dict[str, dict]) -> Figure:
    """A panel for each part: what was measured, and a line of slope 1 through the first point."""
    caption = f"{CORES} processors; grey: in proportion to the first point"
    figure = style.new_figure(3.4 * len(found), 3.4, caption=caption)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for index, (axes, (name, part)) in enumerate(zip(panels, found.items(), strict=True)):
        size, (label, key) = np.array(part["size"], float), AXES[name]
        values = np.array(part[key], float)
        axes.loglog(size, values[0] * size / size[0], color="0.7", linewidth=0.8)
        axes.loglog(size, values, color=style.colour(index), marker=style.marker(index))
        axes.set_xticks(size, [f"{one:,.0f}" for one in size])
        axes.minorticks_off()
        axes.set_yticks([])
        for x, value in zip(size, values, strict=True):
            axes.annotate(f"{value:,.1f}", (x, value), textcoords="offset points", xytext=(0, -14), ha="center")
        axes.margins(0.15)
        axes.set(xlabel=label, ylabel=key.replace("_per_s", " a second").replace("_", " "))
        axes.set_title(f"{name}: exponent {part['exponent']:.2f}, limit {part['limit_share']:.0%}", fontsize=9)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scaling", description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="directory of scaling.png")
    parser.add_argument("--only", default="", help=f"some of {','.join(PARTS)}; all by default")
    flags = parser.parse_args()
    only = [name for name in flags.only.split(",") if name] or list(PARTS)
    if unknown := sorted(set(only) - set(PARTS)):
        parser.error(f"--only={','.join(unknown)}: expected names among {', '.join(PARTS)}")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        found = {}
        for name in only:
            found[name] = PARTS[name](pathlib.Path(directory))
            print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
    flags.output.mkdir(parents=True, exist_ok=True)
    draw(found).savefig(flags.output / "scaling.png", dpi=style.DPI)
    print(json.dumps({"cores": CORES, "load": load, **found}))


if __name__ == "__main__":
    main()
