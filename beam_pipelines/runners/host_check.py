"""Edge: whether the host is quiet enough to time on, before a build, and whether its durations still hold at the end.

Durations of references are measured over hours. A host that is busy at the start, or whose clock of a program drifts
until the end, is named in the manifest and printed; it stops nothing.
"""

import os
import sys
from collections.abc import Iterable

import numpy as np

from beam_pipelines.records import Problem
from beam_pipelines.sandbox_session import Connection, SandboxSession, Spent, acquire_session, release_session
from optimrl_jax.kinds import Status, TestKind

# Of the cores; the load average counts what runs and what waits to run.
BUSY_SHARE = 0.5
SAMPLED_PROBLEMS = 8
# Beyond every round of a build, whose stored executions would otherwise answer instead of a new run.
FINAL_ROUND = 1_000_000


def host_load() -> dict[str, float]:
    """Measure how busy this host is.

    Returns:
      `cores`, `load_share` (load average of the last minute over the cores) and `is_busy` (1 or 0).
    """
    cores = len(os.sched_getaffinity(0))
    share = os.getloadavg()[0] / cores
    return {"cores": float(cores), "load_share": round(share, 3), "is_busy": float(share > BUSY_SHARE)}


def warn_of_load() -> dict[str, float]:
    """Return what `host_load` measures, and say on standard error where this host is busy."""
    load = host_load()
    if load["is_busy"]:
        print(f"this host is busy ({load['load_share']:.0%} of its cores): durations will be noisy", file=sys.stderr)
    return load


def measure_drift(problems: Iterable[Problem], session: SandboxSession) -> dict[str, float]:
    """Time the slowest optimization test of a sample of references again and compare with what is stored.

    Args:
      problems: finished problems; the first ones that were timed under this session's sandbox are sampled.
      session: the sandbox.

    Returns:
      `pairs`, and `drift`: the median of new over stored seconds, 1 where nothing drifted; only `pairs`, 0, where
      nothing can be compared.
    """
    ratios: list[float] = []
    for problem, _ in zip(problems, range(SAMPLED_PROBLEMS), strict=False):
        timings = problem.timed
        is_timed = (timings.status == Status.SUCCESS) & (timings.duration_s > 0)
        is_timed &= np.array([test.kind == TestKind.OPTIMIZATION for test in problem.tests])[:, None]
        if not is_timed.any():
            continue
        k = int(np.where(is_timed, timings.duration_s, 0).max(axis=1).argmax())
        columns = np.flatnonzero(is_timed[k])[:4]
        solutions = [problem.correct[h] for h in columns]
        again = session.run(solutions, [problem.tests[k]], checker=problem.checker, round_index=FINAL_ROUND).executions
        ratios += (again.wall_s[0] / timings.duration_s[k, columns])[again.status[0] == Status.SUCCESS].tolist()
    return {"pairs": float(len(ratios)), "drift": float(np.median(ratios))} if ratios else {"pairs": 0.0}


def time_again(problems: Iterable[Problem], connection: Connection) -> tuple[dict[str, float], Spent]:
    """Time a sample of references again and print how far they drifted from what is stored.

    Args:
      problems: finished problems.
      connection: how to reach the sandbox.

    Returns:
      The drift as `measure_drift` returns it, and what the sandbox did for it.
    """
    session = acquire_session(connection)
    before = session.spent
    try:
        drift = measure_drift(problems, session)
        spent = session.spent - before
    finally:
        release_session(connection)
    if drift["pairs"]:
        print(f"durations at the end of the build: {drift['drift']:.3f} x stored ({drift['pairs']:.0f} pairs again)")
    return drift, spent
