"""Original problems for the tests: small ones that are sound, and parts from which faulty ones are made."""

import dataclasses

import numpy as np

from beam_pipelines import matrices
from beam_pipelines.records import Generator, Label, Problem, Solution, Test
from optimrl_jax.arrays import TestKind
from sandbox.protocol import Verdict

SLOW_SUM = """n = int(input())
a = list(map(int, input().split()))
s = 0
for x in a:
    for _ in a:
        s += x
print(s // n)
"""
LOOP_SUM = "n = int(input())\na = list(map(int, input().split()))\ns = 0\nfor x in a:\n    s += x\nprint(s)\n"
FAST_SUM = "n = int(input())\nprint(sum(map(int, input().split())))\n"
SORTED_SUM = "n = int(input())\na = sorted(map(int, input().split()))\nprint(sum(a))\n"
LIST_SUM = "import sys\nd = sys.stdin.read().split()\nprint(sum(int(x) for x in d[1:]))\n"
SHIFTED_SUM = "n = int(input())\na = list(map(int, input().split()))\nprint(a[0] + sum(a[1:]))\n"
CORRECT_SUMS = (SLOW_SUM, LOOP_SUM, FAST_SUM, SORTED_SUM, LIST_SUM, SHIFTED_SUM)
WRONG_ANSWER = "n = int(input())\na = list(map(int, input().split()))\nprint(max(a))\n"
WRONG_ON_NEGATIVES = "n = int(input())\na = list(map(int, input().split()))\nprint(sum(map(abs, a)))\n"

SUM_GENERATOR = """
import random
class InputGenerator:
    def _case(self, low, high):
        n = random.randint(low, high)
        return f"{n}\\n" + " ".join(str(random.randint(-9, 9)) for _ in range(n)) + "\\n"
    def generate_edge_cases(self):
        return self._case(1, 300)
    def generate_small_cases(self):
        return self._case(2, 6)
    def generate_sample_cases(self):
        return self._case(10, 400)
    def generate_large_cases(self):
        return self._case(100, 600)
"""
SPLITS = {"planted/a": "rl_train", "planted/b": "rl_train", "planted/c": "rl_test", "planted/d": "non_filterable"}
PASS_RATES = {
    f"{label}_pass_rate_{when}": 0.5 for label in ("correct", "incorrect") for when in ("before", "generated")
}


def solution(name: str, program: str, *, is_correct: bool = True) -> Solution:
    return Solution(name, program, Label.CORRECT if is_correct else Label.INCORRECT)


def original(text: str, output: str, *, origin: str = "public") -> Test:
    return Test(int(TestKind.ORIGINAL), text, output, origin)


def problem(
    name: str = "sum",
    *,
    correct: tuple[str, ...] = CORRECT_SUMS,
    incorrect: tuple[str, ...] = (WRONG_ANSWER,),
    tests: tuple[Test, ...] = (original("3\n1 2 3\n", "6\n"), original("2\n5 5\n", "10\n")),
    generators: tuple[str, ...] = (SUM_GENERATOR,),
    category: str = "sums",
    statement: str = "",
    checker: str = "lines",
) -> Problem:
    """A problem that asks for the sum of a list, sound unless a part is replaced."""
    positive = tuple(solution(f"{name}/c{n}", program) for n, program in enumerate(correct))
    negative = tuple(solution(f"{name}/w{n}", program, is_correct=False) for n, program in enumerate(incorrect))
    return Problem(
        id=f"planted/{name}",
        source="planted",
        category=category,
        statement=statement or f"Read n and n numbers. Print their sum, as the shop {name} would.",
        difficulty=1,
        rating=800,
        time_limit_s=2.0,
        memory_limit_bytes=256 << 20,
        solutions=positive + negative,
        tests=tests,
        generators=tuple(Generator(f"g{n}", program) for n, program in enumerate(generators)),
        checker=checker,
    )


def as_object(record: Problem) -> dict:
    """The problem as an object of the JSON Lines schema."""
    return {
        "id": record.id,
        "source": record.source,
        "category": record.category,
        "statement": record.statement,
        "difficulty": record.difficulty,
        "rating": record.rating,
        "time_limit_s": record.time_limit_s,
        "memory_limit_bytes": record.memory_limit_bytes,
        "group": record.group,
        "tags": list(record.tags),
        "checker": record.checker,
        "tests": [{"input": test.input, "output": test.output, "origin": test.origin} for test in record.tests],
        "solutions": [{"id": s.id, "program": s.program, "label": str(s.label)} for s in record.solutions],
        "generators": [{"id": g.id, "program": g.program} for g in record.generators],
    }


VERDICT_OF_LETTER = {
    "S": Verdict.SUCCESS,
    "T": Verdict.TIME_LIMIT,
    "W": Verdict.WRONG_OUTPUT,
    "R": Verdict.RUNTIME_ERROR,
    "C": Verdict.COMPILE_ERROR,
    "X": Verdict.SANDBOX_FAULT,
}


def executions(rows: list[str], *, seconds: object = 0.01, std_s: float = 0.0) -> matrices.Executions:
    """Executions spelt out: one text a test, one letter a solution, "." where nothing ran."""
    made = matrices.not_run(len(rows), len(rows[0]))
    for k, row in enumerate(rows):
        for s, letter in enumerate(row):
            if letter != ".":
                made.verdict[k, s] = matrices.verdict_code(VERDICT_OF_LETTER[letter])
    made.runs[made.verdict >= 0] = 1
    made.wall_s[:] = np.where(made.verdict >= 0, seconds, 0)
    made.std_s[:] = std_s
    return made


def executed(rows: list[str], *, kinds: list[int], correct: int, seconds: object = 0.01) -> Problem:
    """A problem with these executions; the first `correct` solutions are labelled correct, the others incorrect."""
    labels = [Label.CORRECT] * correct + [Label.INCORRECT] * (len(rows[0]) - correct)
    return dataclasses.replace(
        problem(),
        solutions=tuple(Solution(f"s{n}", f"program {n}", label) for n, label in enumerate(labels)),
        tests=tuple(Test(kind, f"{k}\n", f"{k}\n", f"t{k}") for k, kind in enumerate(kinds)),
        executions=executions(rows, seconds=seconds),
    )


def timings(tests: int, solutions: int, *, seconds: object = 0.25) -> matrices.Timings:
    """Timings of successful executions, three runs each."""
    shape = (tests, solutions)
    return matrices.Timings(
        duration_s=np.broadcast_to(np.float32(seconds), shape).copy(),
        std_s=np.full(shape, 0.01, np.float32),
        runs=np.full(shape, 3, np.int32),
        status=np.zeros(shape, np.int8),
    )


def timed(name: str, **parts: object) -> Problem:
    """A finished problem: its references take 0.25 s, 0.5 s and so on, on every test."""
    made = problem(name, **parts)
    row = 0.25 * np.arange(1, len(made.correct) + 1)
    return dataclasses.replace(
        made,
        timings=timings(len(made.tests), len(row), seconds=row),
        measured_under=(("host", "here"),),
        robust_cv=0.5,
        length_r=0.1,
    )


def example(
    seconds: object, *, kinds: object, status: object = 0, origins: object = None, lengths: object = None
) -> dict:
    """An example with these seconds [k, h]; texts have the given lengths."""
    seconds = np.asarray(seconds, np.float32)
    k, h = seconds.shape
    return {
        "id": b"made/up",
        "test_kind": np.asarray(kinds, np.int8),
        "test_origin": [origin.encode() for origin in origins or [""] * k],
        "test_input": [b"x" * length for length in lengths or [1] * k],
        "test_output": [b""] * k,
        "duration_s": seconds,
        "std_s": np.zeros((k, h), np.float32),
        "status": np.broadcast_to(np.asarray(status, np.int8), (k, h)).copy(),
        "reference_id": [f"r{n}".encode() for n in range(h)],
        "robust_cv": np.float32(0.5),
    }
