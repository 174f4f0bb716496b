"""Which of two correct programs is faster, and why: pairs, a blinded prompt, and votes (sec. 6, App. G.1).

A model reads both programs without seconds and without names. It has to name the faster one, which is known from the
executions, before its reasons count. Pure: the server is asked elsewhere (`optimrl_jax.compare`).
"""

import collections
import dataclasses
import json
import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax.analysis.study import PolicyRun, Study, TimingRun, is_passing, mean_seconds, reference_seconds

CATEGORIES = {
    "ALGORITHM_CHANGE": "another algorithm or paradigm, such as dynamic programming instead of trying everything",
    "DATA_STRUCTURE_CHANGE": "another central data structure, such as a heap instead of a sorted list",
    "COMPLEXITY_REDUCTION": "the same paradigm with a smaller asymptotic cost, such as one loop fewer",
    "IO_OPTIMIZATION": "faster reading or writing",
    "CACHING_MEMOIZATION": "results that are kept or computed in advance",
    "CONSTANT_FACTOR": "the same algorithm and cost with fewer operations, such as stopping early",
    "IMPLEMENTATION_STYLE": "differences of style that hardly matter for speed",
    "MATHEMATICAL_SHORTCUT": "a formula, an identity or an arithmetic trick",
}
KINDS = ("ALGORITHMIC", "SUPERFICIAL")
HUMAN = "best human"
DRAW_MARGIN = 0.01


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two correct programs of one problem.

    Attributes:
      problem: its id.
      statement: its text.
      difficulty: as stored.
      names: who wrote each program.
      programs: their texts.
      seconds: their mean seconds.
    """

    problem: str
    statement: str
    difficulty: int
    names: tuple[str, str]
    programs: tuple[str, str]
    seconds: tuple[float, float]

    @property
    def faster(self) -> int:
        """Index, 0 or 1, of the program that took less time."""
        return int(self.seconds[1] < self.seconds[0])


class Selection(typing.NamedTuple):
    """The pairs to compare, and how many problems were left out for which reason.

    Attributes:
      pairs: those whose seconds differ by at least 1 %.
      neither: problems that no side solves.
      only_one: problems that one side alone solves.
      ties: problems whose two programs are about equally fast.
    """

    pairs: list[Pair]
    neither: int
    only_one: int
    ties: int


class PairVerdict(typing.NamedTuple):
    """What one answer said.

    Attributes:
      faster: index of the program it calls faster; None for no difference.
      category: a key of `CATEGORIES`.
      kind: one of `KINDS`.
      improves_complexity: whether the faster program has the smaller worst-case cost; None where the answer leaves it
        open.
    """

    faster: int | None
    category: str
    kind: str
    improves_complexity: bool | None


class Classification(typing.NamedTuple):
    """The vote of the answers that named the faster program.

    Attributes:
      pair: what was compared.
      category: the most frequent one; "" where too few answers were right.
      kind: likewise.
      improves_complexity: likewise; None where too few were right or they leave it open.
      answers: number of answers.
      correct: number of those that named the faster program.
    """

    pair: Pair
    category: str
    kind: str
    improves_complexity: bool | None
    answers: int
    correct: int


def select_pairs(study: Study, left: PolicyRun, right: PolicyRun | None) -> Selection:
    """Pair each problem's fastest correct programs of two policies.

    Args:
      study: policies on the same problems.
      left: one policy.
      right: another one of the same timing pass; None stands for the best human of that pass.
    """
    pairs, counts = [], collections.Counter()
    sides = [_best(study, policy) if policy else _best_human(study, left.timing) for policy in (left, right)]
    names = (left.label, right.label if right else HUMAN)
    for index, problem in enumerate(study.problems):
        (a, a_s), (b, b_s) = (side[index] for side in sides)
        known = int(np.isfinite(a_s)) + int(np.isfinite(b_s))
        if known < 2:
            counts["only_one" if known else "neither"] += 1
        elif abs(a_s - b_s) < DRAW_MARGIN * max(a_s, b_s):
            counts["ties"] += 1
        else:
            pairs.append(Pair(problem.id, problem.statement, problem.difficulty, names, (a, b), (a_s, b_s)))
    return Selection(pairs, counts["neither"], counts["only_one"], counts["ties"])


def comparison_prompt(pair: Pair, *, is_swapped: bool) -> str:
    """Write the prompt that asks for the faster of two programs and the reason, without names or seconds.

    Args:
      pair: what is compared.
      is_swapped: show the second program first.
    """
    first, second = pair.programs[::-1] if is_swapped else pair.programs
    meanings = "\n".join(f"- {name}: {meaning}" for name, meaning in CATEGORIES.items())
    return (
        "Two correct Python programs solve the same contest problem. Decide which one runs faster on large inputs, and "
        f"why.\n\nProblem:\n{pair.statement}\n\nProgram 1:\n```python\n{first}\n```\n\n"
        f"Program 2:\n```python\n{second}\n```\n\n"
        "First compare algorithms, data structures, input and output, and constants. Then end with one JSON "
        'object with these fields:\n"faster": 1, 2 or 0 for no difference\n"category": the main reason, one of\n'
        f'{meanings}\n"kind": "ALGORITHMIC" where the faster program solves the problem in another way, "SUPERFICIAL" '
        'where it does the same thing better\n"complexity": [cost of program 1, cost of program 2] in O notation\n'
        '"improves_complexity": whether the faster program has the smaller worst-case cost: true, false or null'
    )


def read_verdict(text: str, *, is_swapped: bool) -> PairVerdict | None:
    """Read the last JSON object of an answer that has the fields asked for; None where there is none that fits.

    Args:
      text: the answer.
      is_swapped: whether the prompt showed the second program first.
    """
    decoder = json.JSONDecoder()
    found = None
    for start in (place for place, letter in enumerate(text) if letter == "{"):
        try:
            value, _ = decoder.raw_decode(text[start:])
        except ValueError:
            continue
        if isinstance(value, dict) and {"faster", "category", "kind"} <= value.keys():
            found = value
    if (
        not found
        or found["category"] not in CATEGORIES
        or found["kind"] not in KINDS
        or found["faster"] not in (0, 1, 2)
    ):
        return None
    faster = None if found["faster"] == 0 else (found["faster"] - 1) ^ int(is_swapped)
    improves = found.get("improves_complexity")
    return PairVerdict(faster, found["category"], found["kind"], improves if isinstance(improves, bool) else None)


def classify_pair(pair: Pair, verdicts: Sequence[PairVerdict | None], *, least: int) -> Classification:
    """Let the answers that agree with the measured direction vote.

    Args:
      pair: what was compared.
      verdicts: one for each answer; None where it could not be read.
      least: agreeing answers that a classification needs.
    """
    agreeing = [verdict for verdict in verdicts if verdict and verdict.faster == pair.faster]
    if len(agreeing) < least:
        return Classification(pair, "", "", None, len(verdicts), len(agreeing))
    category = _most([verdict.category for verdict in agreeing])
    kind = _most([verdict.kind for verdict in agreeing])
    improves = _most([verdict.improves_complexity for verdict in agreeing])
    return Classification(pair, category, kind, improves, len(verdicts), len(agreeing))


def _most(values: Sequence[typing.Any]) -> typing.Any:
    """Find the most frequent value, the first of those in order of appearance."""
    return collections.Counter(values).most_common(1)[0][0]


def _best(study: Study, policy: PolicyRun) -> list[tuple[str, float]]:
    seconds = np.where(is_passing(policy), mean_seconds(study, policy), np.inf)
    places = seconds.argmin(axis=1)
    return [(policy.programs[i][place], float(seconds[i, place])) for i, place in enumerate(places)]


def _best_human(study: Study, timing: TimingRun) -> list[tuple[str, float]]:
    found = []
    for problem, seconds in zip(study.problems, reference_seconds(study, timing), strict=True):
        place = int(seconds.argmin()) if seconds.size else -1
        found.append((problem.reference_program[place], float(seconds[place])) if place >= 0 else ("", np.inf))
    return found
