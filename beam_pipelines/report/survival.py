"""What a build can hope for, before anything runs: how many problems of a source pass each gate by their numbers. Pure.

Execution can only take solutions away, so that a problem that fails a gate by what its source says fails it for good.
"""

import dataclasses
import time
from collections import Counter
from collections.abc import Iterable, Mapping

from beam_pipelines.generators.voting import MIN_AGREEING
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Problem, Rejection


@dataclasses.dataclass(frozen=True)
class SurvivalTable:
    """Problems that pass each gate, alone and together with all gates before it.

    Attributes:
      seen: records that were looked at.
      is_whole: whether these are all that the source has.
      alone: gate -> problems that pass it.
      together: gate -> problems that pass it and all before it.
      rejections: reason -> records that the source itself rejects.
    """

    seen: int
    is_whole: bool
    alone: Mapping[str, int]
    together: Mapping[str, int]
    rejections: Mapping[str, int]

    @property
    def survivors(self) -> int:
        """Problems that pass all gates."""
        return list(self.together.values())[-1]


def passed_gates(problem: Problem, options: BuildOptions) -> dict[str, bool]:
    """Tell which gates a problem passes by what its source says, in the order of the stages.

    Args:
      problem: as its source gives it, generators included.
      options: the gates.

    Returns:
      Gate -> whether the problem passes it; the gates depend on the options alone.
    """
    if options.tests_only:
        return {"original tests": bool(problem.tests)}
    return {
        "original tests": bool(problem.tests),
        f"{MIN_AGREEING} correct solutions to agree": len(problem.correct) >= MIN_AGREEING,
        f"--min_correct {options.min_correct}": len(problem.correct) >= options.min_correct,
        f"--min_incorrect {options.min_incorrect}": len(problem.incorrect) >= options.min_incorrect,
        "an input generator": bool(problem.generators),
    }


def tabulate_survival(
    records: Iterable[Problem | Rejection], options: BuildOptions, *, patience_s: float
) -> SurvivalTable:
    """Look at records until there are no more or the time is up, and count what passes.

    Args:
      records: as the source gives them, generators included.
      options: the gates.
      patience_s: seconds after which the rest of a large source is left out.
    """
    start, is_whole, seen = time.monotonic(), True, 0
    names = list(passed_gates(_EMPTY, options))
    alone, together, rejections = Counter(dict.fromkeys(names, 0)), Counter(dict.fromkeys(names, 0)), Counter()
    for record in records:
        seen += 1
        if isinstance(record, Rejection):
            rejections[record.reason] += 1
        else:
            passes_all = True
            for name, passes in passed_gates(record, options).items():
                passes_all = passes_all and passes
                alone[name] += passes
                together[name] += passes_all
        if time.monotonic() - start > patience_s:
            is_whole = False
            break
    return SurvivalTable(seen, is_whole, dict(alone), dict(together), dict(rejections.most_common()))


# Stands in for a problem where only the names of the gates are wanted.
_EMPTY = Problem("", "", "", "", 0, 0, 1.0, 1, (), ())
