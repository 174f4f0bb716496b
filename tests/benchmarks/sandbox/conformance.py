"""Edge: the fast path against a fresh interpreter, on the idioms and on solutions that people wrote."""

import concurrent.futures
import hashlib
import json
import pathlib
import queue
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow.parquet

from sandbox.backends.worker import SandboxWorker
from sandbox.protocol import Limits, Suite
from tests.sandbox import comparison, idioms

SAMPLE = pathlib.Path(__file__).parents[3].parent / "shared" / "data" / "code_contests_sample.parquet"
PYTHON_3 = 3
TESTS = 3
LIMITS = Limits(wall_s=10.0)
KINDS = ("public_tests", "private_tests", "generated_tests")


class Solution(NamedTuple):
    """One program with the tests to compare it on."""

    name: str
    program: str
    suite: Suite

    @property
    def key(self) -> str:
        """Names program and inputs, so that a run that was stopped can go on."""
        return hashlib.sha256(f"{self.suite.sha256}\0{self.program}".encode("utf-8", "surrogatepass")).hexdigest()


def idiom_differences(worker: SandboxWorker) -> list[str]:
    """The idioms on which the fast path differs from a fresh interpreter."""
    suite = Suite(inputs=(idioms.INPUT,), expected=(None,))
    return [
        program
        for program in idioms.IDIOMS
        if list(comparison.differences(worker, program, suite=suite, tests=[0], limits=LIMITS))
    ]


def solutions(path: pathlib.Path = SAMPLE) -> Iterator[Solution]:
    """The sample's Python 3 solutions, each with the first three tests of its problem."""
    for row in pyarrow.parquet.read_table(path).to_pylist():
        inputs = [text for kind in KINDS for text in row[kind]["input"]][:TESTS]
        suite = Suite(inputs=tuple(inputs), expected=(None,) * len(inputs))
        pairs = zip(row["solutions"]["language"], row["solutions"]["solution"], strict=True)
        for index, (language, program) in enumerate(pairs):
            if language == PYTHON_3:
                yield Solution(f"{row['name']} #{index}", program, suite)


def compare_solutions(
    workers: list[SandboxWorker], chosen: list[Solution], *, log: pathlib.Path | None = None
) -> dict[str, int]:
    """Compare many solutions; with a log, those that it already holds are not run again.

    Returns:
      `solutions` compared and `solution_differences`, the number of (solution, test) on which the two differ.
    """
    done = {row["key"]: row for row in _rows(log)}
    free: queue.SimpleQueue[SandboxWorker] = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def compared(solution: Solution) -> dict[str, object]:
        worker = free.get()
        try:
            tests = range(len(solution.suite.inputs))
            found = list(
                comparison.differences(worker, solution.program, suite=solution.suite, tests=tests, limits=LIMITS)
            )
        finally:
            free.put(worker)
        return {"key": solution.key, "name": solution.name, "differences": [[t, repr(a), repr(b)] for t, a, b in found]}

    wanted = {solution.key: solution for solution in chosen}
    with concurrent.futures.ThreadPoolExecutor(len(workers)) as threads:
        for row in threads.map(compared, [one for key, one in wanted.items() if key not in done]):
            done[str(row["key"])] = row
            if row["differences"]:
                print(f"{row['name']}: {row['differences']}", file=sys.stderr, flush=True)
            if log:
                with log.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    differ = sum(len(done[key]["differences"]) for key in wanted)
    return {"solutions": len(chosen), "solution_differences": differ}


def _rows(log: pathlib.Path | None) -> Iterator[dict]:
    if log and log.exists():
        yield from map(json.loads, log.read_text().splitlines())
