"""What a runner's report means: report and output -> verdict. Pure."""

from collections.abc import Mapping

from sandbox import checkers
from sandbox.protocol import Limits, Verdict

KILLED_FOR = {"time": Verdict.TIME_LIMIT, "memory": Verdict.MEMORY_LIMIT, "processes": Verdict.PROCESS_LIMIT}
SIGXCPU = -24
SIGXFSZ = -25


def verdict_of(report: Mapping[str, object], *, expected: str | None, checker: str, limits: Limits) -> Verdict:
    """The verdict of one execution.

    A limit that ended the run comes first, then too much output, then how the program exited, then what it printed.
    Output that is not UTF-8 is a wrong output where one is expected.
    """
    if report["killed_for"]:
        return KILLED_FOR[str(report["killed_for"])]
    if report["exit"] == SIGXCPU or report["wall_s"] >= limits.wall_s:
        return Verdict.TIME_LIMIT
    if report["output_bytes"] > limits.output_bytes or report["exit"] == SIGXFSZ:
        return Verdict.OUTPUT_LIMIT
    if report["exit"] != 0:
        return Verdict.MEMORY_LIMIT if _ran_out_of_memory(str(report["errors"])) else Verdict.RUNTIME_ERROR
    if expected is None:
        return Verdict.SUCCESS
    output = text_of(report["output"])
    agrees = output is not None and checkers.checker_named(checker)(expected, output)
    return Verdict.SUCCESS if agrees else Verdict.WRONG_OUTPUT


def text_of(output: bytes) -> str | None:
    """Standard output as text, or None where it is not UTF-8."""
    try:
        return output.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _ran_out_of_memory(errors: str) -> bool:
    rows = [row for row in errors.splitlines() if row.strip()]
    return bool(rows) and rows[-1].startswith("MemoryError")
