"""What a run came to, where a test comes from, how hard a problem is: closed enumerations that arrays and files hold.

Datasets, environments and their readers agree on these numbers. Nothing here needs more than the standard library, so
that every process of a pipeline starts without JAX.
"""

import enum


class Status(enum.IntEnum):
    """Three-way status of a run (App. D, notation table) plus the two ways in which there is nothing to judge."""

    SUCCESS = 0
    TIMEOUT = 1
    FAILURE = 2
    FAULT = 3
    NOT_RUN = 4


# What a sandbox's verdict, by its text, means for the environment. Closed: a verdict that is missing here is a bug, and
# looking it up says so. Only a timeout is a timeout: other limits that a program breaks are failures of the program.
STATUS_OF_VERDICT: dict[str, Status] = {
    "success": Status.SUCCESS,
    "time_limit": Status.TIMEOUT,
    "sandbox_fault": Status.FAULT,
    "wrong_output": Status.FAILURE,
    "runtime_error": Status.FAILURE,
    "compile_error": Status.FAILURE,
    "memory_limit": Status.FAILURE,
    "output_limit": Status.FAILURE,
    "process_limit": Status.FAILURE,
}


class Difficulty(enum.IntEnum):
    """How hard a benchmark calls a problem, as datasets store it; a larger number is harder, 0 is not known."""

    EASY = 1
    MEDIUM = 2
    HARD = 3


class TestKind(enum.IntEnum):
    """Where a test comes from: T_0 (original), T_+ (added correctness tests) or T^O (optimization), App. D notation."""

    __test__ = False

    ORIGINAL = 0
    ADDED = 1
    OPTIMIZATION = 2
