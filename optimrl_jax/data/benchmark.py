"""Edge: reads a benchmark that has tests and no reference solutions (LiveCodeBench is one) from JSON Lines.

One object a line: `id`, `statement` and `tests` (a list of {input, output}). May be left out: `difficulty` (easy,
medium, hard, or a whole number), `category`, `rating`, `time_limit_s`, `memory_limit_bytes` and `checker`. Such
problems are evaluated without a leaderboard: pass@k, under time limits, and win rates against another policy.
"""

import json
import pathlib
import typing

import numpy as np

from optimrl_jax.arrays import Difficulty, TestKind
from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.jobs.errors import UserError

MEMORY_BYTES = 1 << 30


def read_benchmark(path: str | pathlib.Path) -> list[ProblemRecord]:
    """Read the problems of a tests-only benchmark, in order; all tests are original ones, and there are no references.

    Args:
      path: of the JSON Lines file.

    Raises:
      UserError: naming the line that does not fit, or the file where it cannot be read or holds no problem.
    """
    path = pathlib.Path(path)
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"evaluation.benchmark = {str(path)!r}: expected a readable file ({error})") from None
    records = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                records.append(_record_of(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{path}:{number}: expected id, statement and tests of a problem ({error!r})") from None
    if not records:
        raise UserError(f"{path}: expected at least one problem")
    return records


def _record_of(row: dict[str, typing.Any]) -> ProblemRecord:
    tests = [(str(test["input"]), str(test["output"])) for test in row["tests"]]
    if not tests:
        raise ValueError("no tests")
    inputs, outputs = zip(*tests, strict=True)
    difficulty = row.get("difficulty", 0)
    nobody = {"duration_s": np.float32, "std_s": np.float32, "runs": np.int32, "status": np.int8}
    return ProblemRecord(
        id=str(row["id"]),
        source=str(row.get("source", "benchmark")),
        category=str(row.get("category", "")),
        statement=str(row["statement"]),
        difficulty=Difficulty[difficulty.upper()] if isinstance(difficulty, str) else int(difficulty),
        rating=int(row.get("rating", 0)),
        time_limit_s=float(row.get("time_limit_s", 0.0)),
        memory_limit_bytes=int(row.get("memory_limit_bytes", MEMORY_BYTES)),
        checker=str(row.get("checker", "lines")),
        test_kind=np.full(len(tests), TestKind.ORIGINAL, np.int8),
        test_input=inputs,
        test_output=outputs,
        reference_id=(),
        reference_program=(),
        reference_speed_class=(),
        incorrect_program=(),
        measured_under={},
        robust_cv=0.0,
        length_r=0.0,
        **{name: np.zeros((len(tests), 0), kind) for name, kind in nobody.items()},
    )
