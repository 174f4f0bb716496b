"""Judges one execution: by the limits and the exit of the program, then by comparison or by the problem's own program.

What a conversation with an interactor makes of it stands in `timing.interactive`.
"""

import typing
from collections.abc import Mapping
from typing import Protocol

from sandbox.protocol import JudgeProgram, RunRequest, Suite, Verdict
from sandbox.timing import calls, interactive, verdicts
from sandbox.timing.conventions import DETAIL_CHARACTERS, Judgement, read_judge


class OutputJudge(Protocol):
    """What runs the program of a problem on an output: a worker.

    With `feedback`, the files that the program left after the pass before, those that it leaves now are the output.
    """

    def judge(
        self,
        judge: JudgeProgram,
        *,
        input_text: str,
        output: str,
        answer: str,
        feedback: Mapping[str, str] | None = None,
    ) -> Mapping[str, typing.Any]: ...


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
    if suite.interactor:
        judgement = interactive.judge_conversation(report, suite.interactor, test, limits=request.limits_of(test))
        if suite.judge is None or judgement.verdict is not Verdict.SUCCESS:
            return judgement
        return _judged(worker, suite, test, report["interactor"]["output"], suite.judge)
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
    return _judged(worker, suite, test, report["output"], suite.judge)


def _judged(worker: OutputJudge, suite: Suite, test: int, output: bytes, judge: JudgeProgram) -> Judgement:
    """Let the suite's judge look at an output."""
    text = verdicts.text_of(output)
    if text is None:
        return Judgement(Verdict.WRONG_OUTPUT, "the output is not UTF-8")
    answer = suite.expected[test] or ""
    return read_judge(worker.judge(judge, input_text=suite.text_of(test), output=text, answer=answer), judge, test)
