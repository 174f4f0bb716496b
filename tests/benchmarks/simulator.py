"""How long the sweep of 1,578 environments takes: `python -m tests.benchmarks.simulator` prints one JSON line.

`total_s` holds everything from the stored arrays to the diagnostics, compilation included, in a fresh process;
`numpy_ratio` compares it with a plain NumPy loop, one configuration at a time, measured on a few problems and
configurations of each family; `growth_exponents` are fitted to the processor seconds of warm sweeps of growing size,
which other work on the machine disturbs less than wall time. `--scaling` measures instead the whole at 1, 4 and 12
thousand problems, each in a process of its own: seconds, peak memory, and the exponent of the seconds.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

import jax
import numpy as np

from optimrl_jax.arrays import Status
from optimrl_jax.simulator import diagnostics, schedule
from optimrl_jax.simulator.configurations import Configuration, configurations
from optimrl_jax.simulator.problems import Problems, synthetic
from optimrl_jax.simulator.sweep import sweep
from tests.benchmarks import model_costs

FULL = {"problems": 1000, "tests": 119, "references": 128}
GROWTH = {
    "problems": [{"problems": n, "tests": 60, "references": 64} for n in (128, 256, 512)],
    "tests": [{"problems": 128, "tests": n, "references": 64} for n in (32, 64, 128)],
    "references": [{"problems": 64, "tests": 60, "references": n} for n in (64, 128, 256)],
}
# The test split, a third of DMC-Optim, and all of it.
SCALING = (1_000, 4_000, 12_275)
# Problems that the NumPy loop is measured on.
SLICE = 4
SCHEDULE = {"steps": 200, "problems": 32, "samples": 4, "band": 0.05, "seed": 0}


def full_sweep(problems: Problems) -> None:
    """Go from stored durations to diagnostics of every configuration."""
    found = sweep([problems])
    curves = schedule.pass_curves(found, schedule.sample_schedule(found, **SCHEDULE))
    diagnostics.diagnose(curves, schedule.step_positions(SCHEDULE["steps"]), window=21)


def exponent_of(shapes: list[dict[str, int]], axis: str) -> float:
    """Slope of log processor seconds over log size, each size warmed up and taken at its least of three."""
    seconds = []
    for shape in shapes:
        problems = synthetic(**shape, seed=1)
        sweep([problems])
        runs = []
        for _ in range(3):
            started_s = time.process_time()
            sweep([problems])
            runs.append(time.process_time() - started_s)
        seconds.append(min(runs))
    sizes = [shape[axis] for shape in shapes]
    return model_costs.growth_exponent(sizes, seconds)


def numpy_loop_s(problems: Problems, *, every: int) -> float:
    """Seconds that a NumPy loop would take over all configurations of `problems`, from one in `every` of them."""
    total_s = 0.0
    for family in sorted({one.family for one in configurations()}):
        members = [one for one in configurations() if one.family == family]
        measured = members[::every]
        started_s = time.perf_counter()
        for one in measured:
            for index in range(len(problems.status)):
                numpy_passes(one, jax.tree.map(lambda leaf, index=index: leaf[index], problems))
        total_s += (time.perf_counter() - started_s) * len(members) / len(measured)
    return total_s


def numpy_passes(one: Configuration, problem: Problems) -> np.ndarray:
    """bool[h]: who passes in one configuration, written the straightforward way over whole [k, h] arrays."""
    values, duration_s = dict(one.values), np.clip(problem.duration_s, 0, 10)
    status, family = problem.status, one.family
    keep = np.ones(len(status), bool)
    if family == "absolute_filter":
        keep = duration_s.mean(axis=1) < values["filter_limit"]
    if family == "length_filter":
        keep = problem.tests.characters < values["filter_limit"]
    if family == "relative_filter":
        dropped = int(values["filter_limit"] * len(status) / 100)
        keep[np.argsort(-duration_s.mean(axis=1))[:dropped]] = False
    if family in ("qar_ranked", "qp_ranked"):
        clean = np.isin(status, (Status.SUCCESS, Status.TIMEOUT)).all(axis=0)
        a, faster = numpy_mean_percentile(duration_s)
        q = a if family == "qar_ranked" else numpy_leaderboard(a, faster)
        return clean & (q <= values["threshold"] + 1e-6)
    limit_s = np.full(len(status), values.get("limit", 10.0))
    if family == "relative_timeout":
        limit_s = np.maximum(1e-3, np.percentile(duration_s, values["limit"], axis=1))
    if family == "ranked_timeout":
        ranks = np.argsort(np.argsort(duration_s, axis=1), axis=1).mean(axis=0)
        best = np.argsort(ranks, kind="stable")[: max(1, int(np.ceil(values["limit"] * len(ranks) / 100)))]
        limit_s = getattr(np, values["bound"])(duration_s[:, best], axis=1)
    late = (status == Status.TIMEOUT) | ((status == Status.SUCCESS) & (duration_s >= limit_s[:, None]))
    clean = np.isin(status[keep], (Status.SUCCESS, Status.TIMEOUT)).all(axis=0)
    return clean & (late[keep].sum(axis=0) / max(1, keep.sum()) <= values["tolerance"] + 1e-6)


def numpy_mean_percentile(duration_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a(.) of every reference and, [k, h, h], who is strictly faster than whom on each test."""
    faster = duration_s[:, :, None] < duration_s[:, None, :]
    return (faster.sum(axis=1) / duration_s.shape[1]).mean(axis=0), faster


def numpy_leaderboard(a: np.ndarray, faster: np.ndarray) -> np.ndarray:
    """q_QP of every reference: each one inserted once more into every list."""
    moved = a[None, :] + faster.mean(axis=0) / len(a)
    return (moved < a[:, None] - 1e-6).sum(axis=1) / len(a)


def scaling(sizes: Sequence[int]) -> dict[str, object]:
    """Seconds and peak memory of the full sweep at each size, and the slope of log seconds over log problems."""
    found = []
    for size in sizes:
        command = [sys.executable, "-m", "tests.benchmarks.simulator", f"--problems={size}", "--alone"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append({"problems": size, **json.loads(printed)})
    seconds = [float(each["total_s"]) for each in found]
    cpu_s = [float(each["cpu_s"]) for each in found]
    return {
        "sizes": found,
        "exponent": model_costs.growth_exponent(sizes, seconds),
        "cpu_exponent": model_costs.growth_exponent(sizes, cpu_s),
    }


def alone(shape: dict[str, int]) -> dict[str, float]:
    """Seconds, those of all processors, and peak memory of one full sweep in a fresh process."""
    problems = synthetic(**shape, seed=0)
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    full_sweep(problems)
    return {
        "total_s": time.perf_counter() - started_s,
        "cpu_s": time.process_time() - started_cpu_s,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def figures(*, shape: dict[str, int], growth: dict[str, list[dict[str, int]]]) -> dict[str, object]:
    """The benchmark's figures; the full sweep comes first, so that it compiles everything itself."""
    swept = alone(shape)
    total_s = swept["total_s"]
    loop_s = numpy_loop_s(synthetic(**shape | {"problems": SLICE}, seed=0), every=9)
    return {
        "configurations": len(configurations()),
        **swept,
        "numpy_ratio": loop_s * shape["problems"] / SLICE / total_s,
        "growth_exponents": {axis: exponent_of(shapes, axis) for axis, shapes in growth.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=FULL["problems"])
    parser.add_argument("--alone", action="store_true", help="only seconds and peak memory of the sweep")
    parser.add_argument("--scaling", action="store_true", help=f"the sweep at {SCALING} problems, with the exponent")
    arguments = parser.parse_args()
    shape = FULL | {"problems": arguments.problems}
    if arguments.scaling:
        print(json.dumps(scaling(SCALING)))
    else:
        print(json.dumps(alone(shape) if arguments.alone else figures(shape=shape, growth=GROWTH)))


if __name__ == "__main__":
    main()
