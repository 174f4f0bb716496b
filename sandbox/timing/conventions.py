"""What the programs of problems are called with and what their ends mean, by two conventions: testlib's and Kattis's.

A program of a problem that ends in any other way than its convention says is a fault of the problem: it never becomes a
verdict on the program that it was to judge. Pure.
"""

import json
import typing
from collections.abc import Mapping
from typing import NamedTuple

from sandbox.inside import languages
from sandbox.protocol import JudgeProgram, Verdict
from sandbox.timing import verdicts

DETAIL_CHARACTERS = 400
RIGHT, WRONG = Verdict.SUCCESS, Verdict.WRONG_OUTPUT
ENDINGS = {
    "testlib": {0: RIGHT, 1: WRONG, 2: WRONG, 4: WRONG, 8: WRONG},
    "kattis": {42: RIGHT, 43: WRONG},
}
# What ends of a testlib program that are no verdict mean, in the words of its users.
MEANINGS = {3: "it says that the jury has failed", 7: "it gives points, which are no verdict"}
PROBLEM = "problem"
_INPUT, _OUTPUT, _ANSWER = languages.JUDGED_FILES
# The first arguments of a program of a problem, which it may open as files.
_ARGUMENTS = {
    "testlib": (_INPUT, _OUTPUT, _ANSWER),
    "kattis": (_INPUT, _ANSWER, f"{languages.FEEDBACK}/"),
}


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


def arguments_of(judge: JudgeProgram) -> list[str]:
    """Return the words of its command line, after its name."""
    return [*_ARGUMENTS[judge.convention], *judge.arguments]


def packed(input_text: str, output: str, answer: str, *, feedback: Mapping[str, str] | None = None) -> str:
    """Pack what a program of a problem reads into one text, which `languages.unpack_files` takes apart.

    Args:
      input_text, output, answer: of the test; the output to be judged.
      feedback: files by name that a pass before left in the judge's folder; None where there is one pass alone.
    """
    parts = (input_text, output, answer, *([] if feedback is None else [json.dumps(dict(feedback))]))
    sizes = (len(part.encode("utf-8", "surrogatepass")) for part in parts)
    return f"{' '.join(map(str, sizes))}\n{''.join(parts)}"


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
        return Judgement(Verdict.SANDBOX_FAULT, f"{judge.FIELD} failed on test {test}: {how}: {said}", PROBLEM)
    return Judgement(verdict, "" if verdict is RIGHT else said)
