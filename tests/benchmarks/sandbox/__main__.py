"""Edge: measures what the sandbox promises and prints one JSON line. `python -m tests.benchmarks.sandbox`.

`--only=key,...` measures the parts in which these keys are found; KEYS names them all. Timing figures say little beside
other work on the machine, the rest is not affected by it.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from sandbox import client
from sandbox.backends import docker
from sandbox.backends.worker import SandboxWorker
from tests.benchmarks.sandbox import attacks, conformance, losses, neighbours, timing

JOBS = 724
FAST, STRICT = "docker_clean", "docker"
# Before the first figure, so that the probes know the host.
SETTLING_S = 12.0
Figures = dict[str, object]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the command line asked for.

    Attributes:
      backend: what is measured.
      reruns: how often the same is measured again.
      jobs: jobs under load.
      solutions: how many of the sample's solutions to compare; None for all.
      log: file of compared solutions, with which a run that was stopped goes on; None keeps none.
    """

    backend: str
    reruns: int
    jobs: int
    solutions: int | None
    log: pathlib.Path | None


@contextlib.contextmanager
def _opened(backend: str, *, workers: int = 2) -> Iterator[tuple[client.Client, timing.PlainPool]]:
    with tempfile.TemporaryDirectory() as directory, client.connect(backend, workers=workers) as sandbox:
        yield sandbox, timing.PlainPool(directory)


def _speed(plan: Plan) -> Figures:
    with _opened(FAST) as (sandbox, _):
        figures: Figures = {"overhead_ms": timing.overhead_ms(sandbox)}
    with _opened(plan.backend) as (sandbox, plain):
        return figures | {
            "overhead_strict_ms": timing.overhead_ms(sandbox),
            "throughput_ratio": timing.throughput_ratio(sandbox, plain),
        }


def _reruns(plan: Plan, name: str, *, first_seed: int = 0) -> tuple[Figures, list]:
    """Variation of reruns, ours and the plain pool's, as `rerun_cv` + `name`; and our answers."""
    with _opened(plan.backend) as (sandbox, plain):
        timing.settle(sandbox, for_s=SETTLING_S)
        ours, theirs = timing.rerun(sandbox, plain, reruns=plan.reruns, first_seed=first_seed)
    columns = [timing.seconds(answer) for answer in ours]
    return {f"rerun_cv{name}": timing.variation(columns), f"plain_rerun_cv{name}": timing.variation(theirs)}, ours


def _calm(plan: Plan) -> Figures:
    figures, answers = _reruns(plan, "")
    runs = [result.runs for answer in answers for result in answer.results]
    covered = timing.coverage(answers)
    return figures | {"interval_coverage": covered, "executions_per_test": statistics.fmean(runs)}


def _loaded(plan: Plan) -> Figures:
    with neighbours.burners(1, cpu=max(os.sched_getaffinity(0))):
        return _reruns(plan, "_loaded", first_seed=500)[0]


def _restless(plan: Plan) -> Figures:
    with neighbours.restless():
        figures, answers = _reruns(plan, "_restless", first_seed=700)
        missed = statistics.fmean(answer.measured_under.get("precision") == "missed" for answer in answers)
        covered = timing.coverage(answers)
        return figures | {"interval_coverage_restless": covered, "precision_missed_share_restless": missed}


def _percentiles(plan: Plan) -> Figures:
    with _opened(plan.backend) as (sandbox, plain):
        places, stored_and_fresh_s = timing.percentiles(sandbox, plain, reruns=plan.reruns)
    return places | {"spearman_calibrated": timing.calibrated_spearman(stored_and_fresh_s)}


def _percentiles_restless(plan: Plan) -> Figures:
    with neighbours.restless(seed=11), _opened(plan.backend) as (sandbox, plain):
        places, _ = timing.percentiles(sandbox, plain, reruns=plan.reruns)
    return {name.replace("_points", "_restless"): value for name, value in places.items()}


def _long_spins(plan: Plan) -> Figures:
    with _opened(plan.backend, workers=1) as (sandbox, _):
        return {"long_spin_error": timing.long_spin_error(sandbox)}


def _jobs(plan: Plan) -> Figures:
    with _opened(plan.backend) as (sandbox, _):
        return {"lost_jobs": losses.lost_jobs(sandbox, jobs=plan.jobs)}


def _away(plan: Plan) -> Figures:
    return {
        "lost_answers_engine_away": losses.lost_answers_engine_away(),
        "lost_answers_server_away": losses.lost_answers_server_away(),
    }


def _attacks(plan: Plan) -> Figures:
    with _opened(plan.backend, workers=1) as (sandbox, _):
        channels = attacks.open_channels(sandbox)
        return {
            "least_charged_share": attacks.least_charged_share(sandbox),
            "open_channels": len(channels),
            "faults_caused_by_programs": len(attacks.faults_caused_by_programs(sandbox)),
        }


def _conformance(plan: Plan) -> Figures:
    isolation = "clean" if plan.backend == FAST else "world"
    workers: list[SandboxWorker] = docker.docker_workers(2, isolation=isolation)
    try:
        idioms = conformance.idiom_differences(workers[0])
        chosen = list(itertools.islice(conformance.solutions(), plan.solutions))
        found = conformance.compare_solutions(workers, chosen, log=plan.log)
    finally:
        for worker in workers:
            worker.stop()
    return {"conformance_differences": len(idioms) + found["solution_differences"], "solutions": found["solutions"]}


PARTS: dict[tuple[str, ...], Callable[[Plan], Figures]] = {
    ("overhead_ms", "overhead_strict_ms", "throughput_ratio"): _speed,
    ("rerun_cv", "plain_rerun_cv", "interval_coverage", "executions_per_test"): _calm,
    ("rerun_cv_loaded", "plain_rerun_cv_loaded"): _loaded,
    ("rerun_cv_restless", "plain_rerun_cv_restless", "interval_coverage_restless"): _restless,
    ("percentile_std_points", "plain_percentile_std_points", "spearman_calibrated"): _percentiles,
    ("percentile_std_restless", "plain_percentile_std_restless"): _percentiles_restless,
    ("long_spin_error",): _long_spins,
    ("lost_jobs",): _jobs,
    ("lost_answers_engine_away", "lost_answers_server_away"): _away,
    ("least_charged_share", "open_channels", "faults_caused_by_programs"): _attacks,
    ("conformance_differences",): _conformance,
}
KEYS = [key for keys in PARTS for key in keys]


def measure(plan: Plan, only: Sequence[str]) -> Figures:
    """All figures of the parts that hold the keys of `only`; of every part where that is empty."""
    figures: Figures = {}
    for keys, part in PARTS.items():
        if not only or set(only) & set(keys):
            start_s = time.monotonic()
            found = part(plan)
            figures |= found
            print(f"{found} in {time.monotonic() - start_s:.0f} s", file=sys.stderr, flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sandbox", description=__doc__)
    parser.add_argument("--backend", default=STRICT, help="the backend to be measured")
    # With eight the same host gave coverages between 89 and 100 %: pairs of few requests say much the same.
    parser.add_argument("--reruns", type=int, default=20, help="how often the same is measured again")
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs under each load")
    parser.add_argument("--only", default="", help="keys to be measured, with commas between them; all by default")
    parser.add_argument("--solutions", default="200", help="solutions of the sample to compare: a number, or all")
    parser.add_argument("--log", type=pathlib.Path, help="file with which a comparison of solutions can go on")
    flags = parser.parse_args()
    only = [key for key in flags.only.split(",") if key]
    if unknown := sorted(set(only) - set(KEYS)):
        parser.error(f"--only={','.join(unknown)}: expected keys among {', '.join(KEYS)}")
    solutions = None if flags.solutions == "all" else int(flags.solutions)
    plan = Plan(flags.backend, flags.reruns, flags.jobs, solutions, flags.log)
    print(json.dumps(measure(plan, only)))


if __name__ == "__main__":
    main()
