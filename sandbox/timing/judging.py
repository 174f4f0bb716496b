"""Judges one execution: by the limits and the exit of the program, then by comparison or by the problem's own program.

A judge that ends in any other way than its convention says is a fault of the problem: it never becomes a verdict on the
program that it was to judge.
"""

import typing
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from sandbox.protocol import JudgeProgram, RunRequest, Suite, Verdict
from sandbox.timing import calls, verdicts

DETAIL_CHARACTERS = 400
RIGHT, WRONG = Verdict.SUCCESS, Verdict.WRONG_OUTPUT
ENDINGS = {
    "testlib": {0: RIGHT, 1: WRONG, 2: WRONG, 4: WRONG, 8: WRONG},
    "kattis": {42: RIGHT, 43: WRONG},
}
# What ends of a testlib program that are no verdict mean, in the words of its users.
MEANINGS = {3: "it says that the jury has failed", 7: "it gives points, which are no verdict"}
PROBLEM = "problem"


class Judgement(NamedTuple):
    """What became of one execution.

    Attributes:
      verdict: the verdict.
      detail: why, for people; empty after a success.
      fault: "problem" where the verdict is a fault of the problem's.
    """

    verdict: Verdict
    detail: str = ""
    fault: str = ""


class OutputJudge(Protocol):
    """What runs the program of a problem on an output: a worker."""

    def judge(self, judge: JudgeProgram, *, input_text: str, output: str, answer: str) -> Mapping[str, typing.Any]: ...


def judge_report(
    worker: OutputJudge, report: Mapping[str, typing.Any], suite: Suite, test: int, request: RunRequest
) -> Judgement:
    """Judge one execution.

    Args:
      worker: runs the suite's judge, where it has one.
      report: what the runner says of the execution.
      suite: the test's input and expected output, and how outputs are judged.
      test: index into the suite.
      request: the limits that the execution ran under.

    Raises:
      InvalidRequestError: the judge does not compile.
      WorkerLost, RunAbandoned: from `worker`.
    """
    expected = None if suite.judge or suite.call else suite.expected[test]
    verdict = verdicts.verdict_of(report, expected=expected, checker=suite.checker, limits=request.limits_of(test))
    if verdict is not Verdict.SUCCESS:
        return Judgement(verdict, str(report["errors"])[-DETAIL_CHARACTERS:])
    if suite.call and suite.judge is None:
        produced, wanted = verdicts.text_of(report["output"]), suite.expected[test]
        agrees = wanted is None or (produced is not None and calls.values_agree(wanted, produced, suite.call))
        return Judgement(Verdict.SUCCESS if agrees else Verdict.WRONG_OUTPUT)
    if suite.judge is None:
        return Judgement(verdict)
    output = verdicts.text_of(report["output"])
    if output is None:
        return Judgement(Verdict.WRONG_OUTPUT, "the output is not UTF-8")
    answer = suite.expected[test] or ""
    return read_judge(
        worker.judge(suite.judge, input_text=suite.inputs[test], output=output, answer=answer), suite.judge, test
    )


def read_judge(report: Mapping[str, typing.Any], judge: JudgeProgram, test: int) -> Judgement:
    """Return what the run of a problem's judge says; `test` is named where it failed."""
    said = (str(report["errors"]) or verdicts.text_of(report["output"]) or "").strip()[-DETAIL_CHARACTERS:]
    status = int(report["exit"])
    verdict = ENDINGS[judge.convention].get(status)
    # An interpreter ends with 1 for an exception as well, which is no verdict.
    has_raised = status == 1 and judge.language.startswith("py") and "Traceback (most recent call last)" in said
    if report["killed_for"] or report["oom_killed"] or verdict is None or has_raised:
        how = f"it exceeded its limit of {report['killed_for'] or 'memory'}"
        if not (report["killed_for"] or report["oom_killed"]):
            how = MEANINGS.get(status, f"it ended with {status}") if judge.convention == "testlib" else f"{status}"
        return Judgement(Verdict.SANDBOX_FAULT, f"suite.judge failed on test {test}: {how}: {said}", PROBLEM)
    return Judgement(verdict, "" if verdict is RIGHT else said)
