"""Judges what a runner reports: from report and output to verdict. Pure."""

import typing
from collections.abc import Mapping

from sandbox.protocol import Limits, Verdict
from sandbox.timing import checkers

KILLED_FOR = {
    "time": Verdict.TIME_LIMIT,
    "memory": Verdict.MEMORY_LIMIT,
    "processes": Verdict.PROCESS_LIMIT,
    "output": Verdict.OUTPUT_LIMIT,
}
# A refusal of the kernel reaches a program as an exception; these are limits, not mistakes of the program.
EXCEPTIONS = {
    "MemoryError": Verdict.MEMORY_LIMIT,
    "OSError: [Errno 12]": Verdict.MEMORY_LIMIT,
    "BlockingIOError: [Errno 11]": Verdict.PROCESS_LIMIT,
    "RuntimeError: can't start new thread": Verdict.PROCESS_LIMIT,
    "OSError: [Errno 27]": Verdict.OUTPUT_LIMIT,
    "OSError: [Errno 28]": Verdict.OUTPUT_LIMIT,
}
SIGXCPU = -24
SIGXFSZ = -25


def verdict_of(report: Mapping[str, typing.Any], *, expected: str | None, checker: str, limits: Limits) -> Verdict:
    """Judge one execution.

    A limit that ended the run comes first, then too much output, then how the program exited, then what it printed.

    Args:
      report: what the runner says of the execution.
      expected: the output to expect; None accepts every output of a clean exit.
      checker: name of the comparison, see `checkers.checker_named`.
      limits: the limits it ran under.

    Returns:
      The verdict, never SANDBOX_FAULT or COMPILE_ERROR. Output that is not UTF-8 is wrong where one is expected.
    """
    if report["oom_killed"]:
        return Verdict.MEMORY_LIMIT
    if report["killed_for"]:
        return KILLED_FOR[str(report["killed_for"])]
    if report["exit"] == SIGXCPU or report["wall_s"] >= limits.wall_s:
        return Verdict.TIME_LIMIT
    if limits.cpu_s is not None and report["cpu_s"] >= limits.cpu_s:
        return Verdict.TIME_LIMIT
    if report["output_bytes"] > limits.output_bytes or report["exit"] == SIGXFSZ:
        return Verdict.OUTPUT_LIMIT
    if report["exit"] != 0:
        return _failure_of(report)
    if expected is None:
        return Verdict.SUCCESS
    output = text_of(report["output"])
    agrees = output is not None and checkers.checker_named(checker)(expected, output)
    return Verdict.SUCCESS if agrees else Verdict.WRONG_OUTPUT


def text_of(output: bytes) -> str | None:
    """Decode standard output, or return None where it is not UTF-8."""
    try:
        return output.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _failure_of(report: Mapping[str, typing.Any]) -> Verdict:
    rows = [row for row in str(report["errors"]).splitlines() if row.strip()]
    last = rows[-1] if rows else ""
    return next((verdict for start, verdict in EXCEPTIONS.items() if last.startswith(start)), Verdict.RUNTIME_ERROR)
