"""Runs the further passes of a test that a judge asks for, each on an input that the judge wrote, and judges them all.

By the multi-pass problems of package formats 2023-07 and 2025-09: limits hold for each pass, and what the judge leaves
in its folder stays there for the next one. The test's seconds are those of its longest pass, which is the one that the
limit looks at. Where the problem is interactive as well, each pass is a conversation, and the interactor is the judge.
Problems of one pass are judged by `timing.judging` alone.
"""

import json
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sandbox.protocol import Interactor, JudgeProgram, Limits, RunRequest, Suite, Verdict
from sandbox.timing import interactive, verdicts
from sandbox.timing.conventions import DETAIL_CHARACTERS, PROBLEM, RIGHT, WRONG, Judgement, read_judge
from sandbox.timing.judging import OutputJudge, judge_report

Report = Mapping[str, typing.Any]
NEXT_INPUT, MESSAGE = "nextpass.in", "judgemessage.txt"
CUT_SHORT = "its feedback is cut short, or is not ours"
# Any other verdict on a pass comes from what the program did, or from a judge that failed.
SAID_BY_JUDGES = (RIGHT, WRONG)


class PassExecutor(OutputJudge, Protocol):
    """What runs the current program, too; with `feedback`, the files that its interactor left after the pass before."""

    def run(
        self,
        suite: Suite,
        tests: Sequence[int],
        *,
        limits: typing.Callable[[int], Limits],
        probes: bool,
        feedback: Mapping[str, str] | None = None,
    ) -> Iterator[Report]: ...


def has_passes(suite: Suite) -> bool:
    """Tell whether the judge of a suite, or its interactor, may ask for further passes."""
    return any(program.passes > 1 for program in (suite.interactor, suite.judge) if program)


def judge_execution(
    worker: PassExecutor, report: Report, suite: Suite, test: int, request: RunRequest
) -> tuple[Report, Judgement]:
    """Judge one execution, after the further passes that the judge asks for.

    Args:
      worker: runs the program and the judge.
      report: what the runner says of the execution, or of its first pass.
      suite: the test's input and expected output, and how outputs are judged.
      test: index into the suite.
      request: the limits that each pass runs under.

    Returns:
      The report of the pass that failed, else of the longest one; and what became of the execution.

    Raises:
      InvalidRequestError: the judge does not compile.
      WorkerLost, RunAbandoned: from `worker`.
    """
    if not has_passes(suite):
        return report, judge_report(worker, report, suite, test, request)
    judge = typing.cast(JudgeProgram, suite.interactor or suite.judge)
    answer, limits = suite.expected[test] or "", request.limits_of(test)
    text, feedback, reports = suite.text_of(test), {}, [report]
    while True:
        judgement, feedback = _judge_pass(worker, reports[-1], judge, test, (text, answer, feedback), limits)
        following = feedback.pop(NEXT_INPUT, None)
        judgement = _checked(judgement, following is not None, len(reports), judge, test)
        if judgement.verdict is not RIGHT:
            return reports[-1], judgement
        if following is None:
            return max(reports, key=lambda one: one["wall_s"]), judgement
        text = following
        following_pass = Suite((text,), (answer,), interactor=suite.interactor)
        probes = request.repeats > 1
        reports += worker.run(following_pass, [0], limits=lambda _: limits, probes=probes, feedback=feedback)


def _judge_pass(
    worker: PassExecutor,
    report: Report,
    judge: JudgeProgram,
    test: int,
    given: tuple[str, str, Mapping[str, str]],
    limits: Limits,
) -> tuple[Judgement, dict[str, str]]:
    """Judge one pass on its input, the answer and the folder so far; return what the folder holds then as well."""
    if isinstance(judge, Interactor):
        return _judge_conversation(report, judge, test, limits)
    text, answer, feedback = given
    verdict = verdicts.verdict_of(report, expected=None, checker="lines", limits=limits)
    if verdict is not Verdict.SUCCESS:
        return Judgement(verdict, str(report["errors"])[-DETAIL_CHARACTERS:]), {}
    output = verdicts.text_of(report["output"])
    if output is None:
        return Judgement(Verdict.WRONG_OUTPUT, "the output is not UTF-8"), {}
    said = worker.judge(judge, input_text=text, output=output, answer=answer, feedback=feedback)
    left = read_folder(said["output"])
    judgement = _fault(judge, test, CUT_SHORT) if left is None else read_judge(_worded(said, left), judge, test)
    return judgement, left or {}


def _judge_conversation(
    report: Report, interactor: Interactor, test: int, limits: Limits
) -> tuple[Judgement, dict[str, str]]:
    """Judge one pass in which the program talked to the interactor; return what its folder holds then as well."""
    partner = report["interactor"]
    left = read_folder(partner["output"])
    talk = {**report, "interactor": _worded(partner, left or {})}
    judgement = interactive.judge_conversation(talk, interactor, test, limits=limits)
    # Without its folder nobody knows what it asks for; what the program did itself does not depend on that.
    is_lost = left is None and judgement.verdict in SAID_BY_JUDGES
    return _fault(interactor, test, CUT_SHORT) if is_lost else judgement, left or {}


def _worded(said: Report, left: Mapping[str, str]) -> Report:
    """Put what a judge wrote for people, where it did, before what it printed; its folder was no output."""
    return {**said, "output": b""} | ({"errors": left[MESSAGE]} if left.get(MESSAGE) else {})


def _fault(judge: JudgeProgram, test: int, why: str) -> Judgement:
    return Judgement(Verdict.SANDBOX_FAULT, f"{judge.FIELD} failed on test {test}: {why}", PROBLEM)


def read_folder(output: bytes) -> dict[str, str] | None:
    """Read the texts by name that a judge's folder holds, as `inside.languages` printed them.

    A judge that is after it can print in their place: anything that is not texts by name is None. Empty output is an
    empty folder: the judge did not get as far.
    """
    try:
        found = json.loads(output or b"{}")
    except (ValueError, RecursionError):
        return None
    is_folder = isinstance(found, dict) and all(isinstance(text, str) for text in found.values())
    return found if is_folder else None


def _checked(judgement: Judgement, asks_again: bool, passes: int, judge: JudgeProgram, test: int) -> Judgement:
    """Return a judgement, or the fault of a judge that asks for another pass where it may not."""
    if not asks_again or judgement.verdict not in SAID_BY_JUDGES:
        return judgement
    if judgement.verdict is WRONG:
        return _fault(judge, test, f"it turned the output down and wrote {NEXT_INPUT}")
    return judgement if passes < judge.passes else _fault(judge, test, f"it asked for more than {judge.passes} passes")
