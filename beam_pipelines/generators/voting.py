"""What the inputs of a generator should give: solutions vote by the problem's own checker. Pure.

Comes after the pool ran on new inputs and before its executions are kept. A run that did not succeed has no output,
whatever it printed before it failed, so a solution that failed anywhere has no list and no vote.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from beam_pipelines import matrices
from beam_pipelines.generators.harness import is_unicode
from beam_pipelines.matrices import Executions
from beam_pipelines.sandbox_session import Runs
from optimrl_jax.kinds import Status
from sandbox.protocol import Verdict

MIN_AGREEING = 2

Checker = Callable[[str, str], bool]
OutputList = tuple[str | None, ...]


@dataclasses.dataclass(frozen=True)
class Vote:
    """The winning output list and its supporters.

    Attributes:
      outputs: one tidied output for each input.
      agreeing: the solutions that support them, as indices into the pool.
    """

    outputs: tuple[str, ...]
    agreeing: tuple[int, ...]


def successful_outputs(runs: Runs) -> tuple[OutputList, ...]:
    """Return each solution's outputs, None for every run that failed or printed what cannot be stored.

    Args:
      runs: executions [k, s] of a pool, with outputs.

    Returns:
      s lists of k outputs.
    """
    succeeded = runs.executions.status == Status.SUCCESS
    return tuple(
        tuple(text if succeeded[k, s] and is_unicode(text or "") else None for k, text in enumerate(row))
        for s, row in enumerate(runs.outputs)
    )


def find_consensus(outputs: Sequence[OutputList], checker: Checker) -> Vote | None:
    """Find the output list that most solutions support under the problem's checker.

    App. B, "Test generation", steps 4 to 6: outputs are kept where at least two solutions give the same list. "Same" is
    what the checker accepts, with each list in turn as the expected one: a tolerance is no equivalence, so that the
    list with the most supporters is taken instead of a class of equal ones. The first list wins a tie.

    Args:
      outputs: for each solution of the pool its outputs on all inputs, None where a run did not succeed.
      checker: whether (expected, produced) agree.

    Returns:
      The winning list and its supporters; None where fewer than two solutions support any list, or where they agree on
      nothing but empty outputs, which judge nothing.
    """
    # Tidied first: outputs of a large input are long, and most solutions then print the very same text.
    lists = {
        s: tuple(tidy_output(_not_none(text), checker) for text in row)
        for s, row in enumerate(outputs)
        if row and None not in row
    }
    distinct = list(dict.fromkeys(lists.values()))
    agrees = {
        (i, j): all(outputs_agree(checker, a, b) for a, b in zip(expected, produced, strict=True))
        for i, expected in enumerate(distinct)
        for j, produced in enumerate(distinct)
    }
    place = {row: i for i, row in enumerate(distinct)}
    supporters = [tuple(s for s, row in lists.items() if agrees[i, place[row]]) for i in range(len(distinct))]
    best = max(range(len(distinct)), key=lambda i: (len(supporters[i]), -i), default=None)
    if best is None or len(supporters[best]) < MIN_AGREEING or not any(text.strip() for text in distinct[best]):
        return None
    return Vote(distinct[best], supporters[best])


def has_majority(outputs: Sequence[str | None], checker: Checker) -> bool:
    """Tell whether more than half of some outputs agree with one of them.

    Args:
      outputs: of one input; None where a run did not succeed, which has no say.
      checker: whether (expected, produced) agree.

    Returns:
      True too where nobody has a say.
    """
    said = [tidy_output(text, checker) for text in outputs if text is not None]
    supporters = [sum(outputs_agree(checker, one, other) for other in said) for one in dict.fromkeys(said)]
    return 2 * max(supporters, default=1) > len(said)


def judge_pool(runs: Runs, vote: Vote, checker: Checker) -> Executions:
    """Turn successes that disagree with the vote into wrong outputs.

    Args:
      runs: executions [k, s] of the pool on the new inputs, with outputs.
      vote: the outputs that won.
      checker: whether (expected, produced) agree.

    Returns:
      Executions [k, s]; `runs` is not changed.
    """
    verdict = runs.executions.verdict.copy()
    for k, s in np.argwhere(runs.executions.status == Status.SUCCESS):
        if not outputs_agree(checker, vote.outputs[k], tidy_output(runs.outputs[s][k] or "", checker)):
            verdict[k, s] = matrices.verdict_code(Verdict.WRONG_OUTPUT)
    return dataclasses.replace(runs.executions, verdict=verdict)


def outputs_agree(checker: Checker, expected: str, produced: str) -> bool:
    """Tell whether the checker accepts an output.

    Equal texts are accepted without asking it, unless a word in them may be "nan", which equals nothing.

    Args:
      checker: whether (expected, produced) agree.
      expected: the output that is right.
      produced: the output in question.
    """
    return (expected == produced and "nan" not in expected.lower()) or checker(expected, produced)


def tidy_output(output: str, checker: Checker) -> str:
    """Strip blanks at the ends of lines and blank lines at the end; the result ends with one newline.

    Where the checker minds what would be dropped, only the line ends change, to LF.

    Args:
      output: what a program printed.
      checker: whether (expected, produced) agree.
    """
    plain = output.replace("\r\n", "\n")
    # Asked of a small text: what a checker thinks of white space does not depend on the output.
    if not checker("1\n", "1 \n \n"):
        return plain
    lines = [line.rstrip() for line in plain.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


def _not_none(text: str | None) -> str:
    if text is None:
        raise ValueError("expected an output")
    return text
