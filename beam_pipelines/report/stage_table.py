"""The final table of a build: what each stage kept and why the others went. Pure: from records to rows."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from beam_pipelines.records import Rejection

# The paper built its dataset from CodeContests; beside other sources its figures would say nothing.
PAPER_SOURCE = "code_contests"
# Problems left after each stage in the paper's own build (App. B.3, Table 10).
PAPER_KEPT = {
    "read": 12_275,
    "deduplicate": 11_468,
    "labels": 6_706,
    "validate": 3_928,
    "classify_correctness": 3_061,
    "classify_optimization": 2_978,
    "non_empty": 2_723,
}


@dataclasses.dataclass(frozen=True)
class StageRow:
    """One line of the stage table.

    Attributes:
      stage: the stage's name.
      kept: problems that it kept.
      rejected: problems that it rejected.
      reasons: reason -> problems rejected for it, most frequent first.
    """

    stage: str
    kept: int
    rejected: int
    reasons: dict[str, int]


def stage_rows(stages: Sequence[str], rejections: Iterable[Rejection], *, kept: int) -> list[StageRow]:
    """Build the stage table; its first row is what was read.

    A stage keeps what it was given less what it rejected, so that the rows need no counters of a runner.

    Args:
      stages: names of all stages, in order.
      rejections: of all stages.
      kept: problems that passed all of them.

    Raises:
      KeyError: a rejection names a stage that is not among them.
    """
    reasons: dict[str, Counter[str]] = {stage: Counter() for stage in stages}
    for rejection in rejections:
        reasons[rejection.stage][rejection.reason] += 1
    left = kept + sum(sum(counts.values()) for counts in reasons.values())
    rows = []
    for stage in stages:
        rejected = sum(reasons[stage].values())
        left -= rejected
        rows.append(StageRow(stage, left, rejected, dict(reasons[stage].most_common())))
    return rows
