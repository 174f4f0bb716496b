"""Byte-order marks and carriage returns belong to files, not to texts: they go before anything runs or is compared."""

import dataclasses

from beam_pipelines.records import Problem

BYTE_ORDER_MARK = "\ufeff"


def tidied(problem: Problem) -> Problem:
    """The problem with LF line ends and without leading byte-order marks in its statement, programs and tests."""
    return dataclasses.replace(
        problem,
        statement=tidy(problem.statement),
        solutions=tuple(dataclasses.replace(one, program=tidy(one.program)) for one in problem.solutions),
        tests=tuple(
            dataclasses.replace(test, input=tidy(test.input), output=None if test.output is None else tidy(test.output))
            for test in problem.tests
        ),
        generators=tuple(dataclasses.replace(one, program=tidy(one.program)) for one in problem.generators),
    )


def tidy(text: str) -> str:
    return text.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n").replace("\r", "\n")
