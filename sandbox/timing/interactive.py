"""From a conversation of a program with the interactor of its problem to a verdict on the program. Pure.

The program's own failures come first, because an interactor whose partner has gone cannot know why. Then the
interactor has the word. `sandbox.inside.interactive` is where conversations take place.
"""

import dataclasses
import typing
from collections.abc import Mapping

from sandbox.protocol import Interactor, Limits, Suite, Verdict, limits_of_run
from sandbox.timing import conventions, verdicts
from sandbox.timing.conventions import DETAIL_CHARACTERS, Judgement


def conversation_of(interactor: Interactor) -> dict[str, object]:
    """Return what a runner has to know of an interactor for one conversation."""
    endings = conventions.ENDINGS[interactor.convention]
    accepting = [status for status, verdict in endings.items() if verdict is Verdict.SUCCESS]
    return {"do": "converse", "interactor_limits": limits_of_run(interactor.limits), "accepting": accepting}


def packed_suite(suite: Suite, interactor: Interactor, *, feedback: Mapping[str, str]) -> Suite:
    """Return the suite whose inputs are what the interactor reads: input and answer of each test.

    Args:
      suite: the tests.
      interactor: of the suite.
      feedback: files by name that a pass before left in its folder; they count where it may ask for several passes.
    """
    folder = feedback if interactor.passes > 1 else None
    tests = enumerate(suite.expected)
    inputs = tuple(conventions.packed(suite.text_of(n), "", answer or "", feedback=folder) for n, answer in tests)
    return dataclasses.replace(suite, inputs=inputs, expected=(None,) * len(inputs), judge=None)


def judge_conversation(
    report: Mapping[str, typing.Any], interactor: Interactor, test: int, *, limits: Limits
) -> Judgement:
    """Judge one conversation.

    In this order: a limit that the program exceeded; an interactor that ended first and turned it down; a program that
    failed; what the interactor says.

    Args:
      report: what the runner says of the program; its `interactor` says the same of the interactor.
      interactor: the program of the problem.
      test: index into the suite, for messages.
      limits: those of the program.
    """
    partner = report["interactor"]
    said = conventions.read_judge(partner, interactor, test)
    has_turned_down = bool(partner["is_first"]) and said.verdict is Verdict.WRONG_OUTPUT
    # Ended by us, after the interactor's end: what the program did then is not its own doing.
    own = {**report, "exit": 0} if partner["is_first"] and said.verdict is not Verdict.SUCCESS else report
    verdict = verdicts.verdict_of(own, expected=None, checker="lines", limits=limits)
    if verdict is Verdict.SUCCESS or has_turned_down:
        return said
    return Judgement(verdict, _reason(report, verdict, limits))


def _reason(report: Mapping[str, typing.Any], verdict: Verdict, limits: Limits) -> str:
    """Say, where time ran out, who used how much of it; else what the program printed on standard error."""
    if verdict is not Verdict.TIME_LIMIT:
        return str(report["errors"])[-DETAIL_CHARACTERS:]
    elapsed_s, own_s = float(report["elapsed_s"]), float(report["cpu_s"])
    return (
        f"the conversation took {elapsed_s:.2f} s, with a limit of {limits.wall_s:g} s for the program, which computed "
        f"for {own_s:.2f} s; the interactor computed for {float(report['interactor']['cpu_s']):.2f} s"
    )
