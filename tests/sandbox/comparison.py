"""Edge: what a program does by the fast path and in a fresh interpreter, in a form that can be compared."""

import re
from collections.abc import Iterator, Sequence

from sandbox.backends.worker import SandboxWorker
from sandbox.protocol import Limits, Suite

FAST, FRESH = "python3", "python3_fresh"
# What differs from one run of an interpreter to the next.
VARYING = re.compile(rb"0x[0-9a-f]+|in [0-9.]+s|Thread-\d+|\(?pid[ =]\d+\)?|tmp\w+")


def outcomes(
    worker: SandboxWorker, program: str, language: str, *, suite: Suite, tests: Sequence[int], limits: Limits
) -> list[tuple[object, ...]]:
    """How the program ends on each test and all that it writes, with what varies by itself masked.

    A run that was ended at a limit says only at which: what it had written by then is chance.
    """
    error = worker.compile(program, language=language)
    if error is not None:
        return [("does not compile", error)] * len(tests)
    reports = worker.run(suite, tests, limits=lambda _: limits, probes=False)
    return [_outcome(report) for report in reports]


def _outcome(report) -> tuple[object, ...]:
    if report["killed_for"] or report["oom_killed"]:
        return ("ended at a limit", report["killed_for"] or "memory")
    masked = (VARYING.sub(b"_", text) for text in (report["output"], str(report["errors"]).encode()))
    return report["exit"], *masked


def differences(
    worker: SandboxWorker, program: str, *, suite: Suite, tests: Sequence[int], limits: Limits
) -> Iterator[tuple[int, tuple[object, ...], tuple[object, ...]]]:
    """The tests on which fast path and fresh interpreter differ, each with what the two did.

    A program that differs from itself in two fresh interpreters (by the clock, by chance) cannot be compared.
    """

    def on(language: str, chosen: Sequence[int]) -> list[tuple[object, ...]]:
        return outcomes(worker, program, language, suite=suite, tests=chosen, limits=limits)

    pairs = zip(tests, on(FAST, tests), on(FRESH, tests), strict=True)
    for test, fast, fresh in [pair for pair in pairs if pair[1] != pair[2]]:
        again = [on(language, [test])[0] for language in (FRESH, FRESH, FAST)]
        if fresh == again[0] == again[1] and fast == again[2]:
            yield test, fast, fresh
