"""Edge: how closely the sandbox times programs, beside a plain pool in the same interleaved calls.

The plain pool is a `subprocess.run` of Python and the program for each test, two at a time, on the wall clock.
Disturbed hosts disturb both: read the figures as ratios.
"""

import concurrent.futures
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
from scipy import stats

from sandbox import client
from sandbox.protocol import Limits, RunRequest, RunResult, Suite
from sandbox.timing import calibration
from tests.benchmarks.sandbox import neighbours

REPEATS = 3
PROGRAM = "n = int(input())\nt = 0\nfor k in range(n):\n    t += k\nprint(t)\n"
ONE_MS_LOOP = 20_000
# About 20, 40, 80, 160 and 320 ms where a million steps take 50 ms.
LOOPS = (400_000, 800_000, 1_600_000, 3_200_000, 6_400_000)
REFERENCES = 24
PERCENTILE_TESTS = 5
DRIFT = (1.6, 0.03)
# Spins until its own thread has had that many seconds: what it used, whatever else ran.
SPIN = "import time\ns = float(input())\nwhile time.thread_time() < s: pass\nprint('spun')\n"
SPINS_S, SPIN_RUNS = (1.45, 1.50, 1.55, 1.60), 5


def suite_of(loops: Sequence[int]) -> Suite:
    return Suite(inputs=tuple(f"{n}\n" for n in loops), expected=tuple(f"{n * (n - 1) // 2}\n" for n in loops))


def reference(index: int) -> str:
    """A program that does (1 + index / 12) times the work of the plain one."""
    extra = PROGRAM.replace("print(t)", f"for k in range(n * {index} // 12):\n    pass\nprint(t)")
    return extra if index else PROGRAM


class PlainPool:
    """What people do without a sandbox."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._threads = concurrent.futures.ThreadPoolExecutor(2)

    def seconds(self, program: str, suite: Suite) -> list[float]:
        path = os.path.join(self._directory, f"{abs(hash(program))}.py")
        with open(path, "w") as file:
            file.write(program)
        return list(self._threads.map(lambda text: self._one(path, text), suite.inputs))

    def _one(self, path: str, text: str) -> float:
        start_s = time.monotonic()
        subprocess.run([sys.executable, path], input=text, capture_output=True, text=True, check=True)
        return time.monotonic() - start_s


def ask(sandbox: client.Client, suite: Suite, program: str, *, repeats: int = REPEATS, seed: int = 0) -> RunResult:
    return sandbox.run(RunRequest(program, suite.sha256, repeats=repeats, seed=seed))


def seconds(answer: RunResult) -> list[float]:
    return [result.wall_s for result in answer.results]


def overhead_ms(sandbox: client.Client, *, tests: int = 100) -> float:
    """What a test takes beyond its program."""
    suite = suite_of([ONE_MS_LOOP] * tests)
    sandbox.upload(suite)
    overheads_ms = []
    for seed in range(5):
        start_s = time.monotonic()
        answer = ask(sandbox, suite, PROGRAM, repeats=1, seed=seed)
        elapsed_s = time.monotonic() - start_s
        overheads_ms.append(1000 * (elapsed_s - sum(seconds(answer))) / len(answer.results))
    return statistics.median(overheads_ms)


def throughput_ratio(sandbox: client.Client, plain: PlainPool, *, tests: int = 100) -> float:
    """Tests a second against those of the plain pool."""
    suite = suite_of([ONE_MS_LOOP] * tests)
    sandbox.upload(suite)
    ratios = []
    for seed in range(2):
        start_s = time.monotonic()
        sandbox.run_many([RunRequest(PROGRAM, suite.sha256, seed=100 + 10 * seed + n) for n in range(10)])
        ours_s = (time.monotonic() - start_s) / (10 * len(suite.inputs))
        start_s = time.monotonic()
        plain.seconds(PROGRAM, suite)
        ratios.append((time.monotonic() - start_s) / len(suite.inputs) / ours_s)
    return statistics.median(ratios)


def variation(columns: Sequence[Sequence[float]]) -> float:
    """Median over programs of standard deviation over mean, over the reruns (rows)."""
    table = np.array(columns)
    return float(np.median(table.std(axis=0, ddof=1) / table.mean(axis=0)))


def rerun(
    sandbox: client.Client, plain: PlainPool, *, reruns: int, first_seed: int
) -> tuple[list[RunResult], list[list[float]]]:
    suite = suite_of(LOOPS)
    sandbox.upload(suite)
    pairs = [(ask(sandbox, suite, PROGRAM, seed=first_seed + n), plain.seconds(PROGRAM, suite)) for n in range(reruns)]
    ours, theirs = zip(*pairs, strict=True)
    return list(ours), list(theirs)


def coverage(answers: Sequence[RunResult]) -> float:
    """Share of estimates that lie inside the 95 % interval which another run of the same program reported."""
    hits = [
        one.interval_s[0] <= other.wall_s <= one.interval_s[1]
        for left, right in itertools.permutations(answers, 2)
        for one, other in zip(left.results, right.results, strict=True)
    ]
    return statistics.fmean(hits)


def mean_percentile(candidate_s: Sequence[float], references_s: np.ndarray) -> float:
    return 100 * float(np.mean(np.mean(references_s < np.array(candidate_s), axis=0)))


def percentiles(sandbox: client.Client, plain: PlainPool, *, reruns: int) -> tuple[dict[str, float], np.ndarray]:
    """How far the place of the same program among the same references moves from rerun to rerun, in points."""
    suite = suite_of([LOOPS[0] + 100_000 * k for k in range(PERCENTILE_TESTS)])
    sandbox.upload(suite)
    programs = [reference(index) for index in range(REFERENCES)]
    ours = np.array([seconds(ask(sandbox, suite, program)) for program in programs])
    theirs = np.array([plain.seconds(program, suite) for program in programs])
    places: dict[str, list[float]] = {"percentile_std_points": [], "plain_percentile_std_points": []}
    for seed in range(1, reruns + 1):
        answer = ask(sandbox, suite, programs[REFERENCES // 2], seed=seed)
        places["percentile_std_points"].append(mean_percentile(seconds(answer), ours))
        candidate_s = plain.seconds(programs[REFERENCES // 2], suite)
        places["plain_percentile_std_points"].append(mean_percentile(candidate_s, theirs))
    fresh = np.array([seconds(ask(sandbox, suite, program, seed=1000)) for program in programs])
    return {name: statistics.stdev(values) for name, values in places.items()}, np.stack([ours, fresh])


def calibrated_spearman(stored_and_fresh_s: np.ndarray) -> float:
    """Order of all programs as stored, against stored ones after calibration mixed with fresh ones after a drift."""
    stored_s, measured_s = stored_and_fresh_s
    fresh_s = DRIFT[0] * measured_s + DRIFT[1]
    alpha, beta_s = calibration.FAMILIES["affine"].fit(stored_s[::2].ravel(), fresh_s[::2].ravel())
    mixed_s = fresh_s.copy()
    mixed_s[::2] = alpha * stored_s[::2] + beta_s
    return float(stats.spearmanr(stored_s.mean(axis=1), mixed_s.mean(axis=1)).statistic)


def long_spin_error(sandbox: client.Client) -> float:
    """Largest error of the median of programs that use a known processor time beside a busy neighbour on their core."""
    suite = Suite(inputs=tuple(f"{spin_s}\n" for spin_s in SPINS_S), expected=("spun\n",) * len(SPINS_S))
    sandbox.upload(suite)
    with neighbours.burners(1, cpu=min(os.sched_getaffinity(0))):
        answers = [
            sandbox.run(RunRequest(SPIN, suite.sha256, seed=seed, limits=Limits(wall_s=10.0)))
            for seed in range(SPIN_RUNS)
        ]
    medians_s = [statistics.median(column) for column in zip(*map(seconds, answers), strict=True)]
    return max(abs(median_s / spin_s - 1.0) for median_s, spin_s in zip(medians_s, SPINS_S, strict=True))


def settle(sandbox: client.Client, *, for_s: float) -> None:
    """Start the workers, and let them look at the host before anything counts."""
    suite = suite_of(LOOPS[:1])
    sandbox.upload(suite)
    sandbox.run_many([RunRequest(PROGRAM, suite.sha256, repeats=REPEATS, seed=-1 - n) for n in range(4)])
    time.sleep(for_s)
