"""The thresholds of both filtering rounds, exactly as the paper gives them (App. B.5, Table 13)."""

import dataclasses

from beam_pipelines.options import BuildOptions
from optimrl_jax.kinds import TestKind


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """Limits of one round of filtering; shares are in [0, 1] and exceeded strictly.

    Attributes:
      name: of the round.
      kind: value of `TestKind` of its generated tests.
      min_correct: correct solutions that must be left of a problem.
      min_incorrect: incorrect solutions that must be left of a problem.
      max_correct_drop: share of correct solutions that may fail the suite.
      max_false_positive: share of incorrect solutions that may pass it; 1 for no such gate.
      timeout_share: share of correct solutions above which a test times out too often.
      timeout_is_success: whether a timeout on an optimization test counts as passed.
      timeout_removal_cap: share of the generated tests it sees that the timeout filter may remove.
      failure_share: share of correct solutions above which a test is failed too often.
      failure_removal_cap: share of the generated tests it sees that the failure filter may remove.
      reclassifies_incorrect: whether incorrect solutions that pass the suite leave the pool.
    """

    name: str
    kind: int
    min_correct: int
    min_incorrect: int
    max_correct_drop: float
    max_false_positive: float
    timeout_share: float
    timeout_is_success: bool
    timeout_removal_cap: float
    failure_share: float
    failure_removal_cap: float
    reclassifies_incorrect: bool

    def stage_name(self, step: str) -> str:
        """Return the name of a stage of this round, such as `classify_correctness`."""
        return f"{step}_{self.name}"


CORRECTNESS = Thresholds(
    name="correctness",
    kind=int(TestKind.ADDED),
    min_correct=5,
    min_incorrect=1,
    max_correct_drop=0.25,
    max_false_positive=0.05,
    timeout_share=0.20,
    timeout_is_success=False,
    timeout_removal_cap=0.25,
    failure_share=0.40,
    failure_removal_cap=0.30,
    reclassifies_incorrect=True,
)

OPTIMIZATION = Thresholds(
    name="optimization",
    kind=int(TestKind.OPTIMIZATION),
    min_correct=1,
    min_incorrect=1,
    max_correct_drop=0.25,
    max_false_positive=1.0,
    timeout_share=0.90,
    timeout_is_success=True,
    timeout_removal_cap=0.25,
    failure_share=0.40,
    failure_removal_cap=0.30,
    reclassifies_incorrect=False,
)


def with_gates(options: BuildOptions) -> tuple[Thresholds, Thresholds]:
    """Return the thresholds of the correctness and optimization rounds with the gates that a build asks for.

    The defaults of `BuildOptions` leave them as the paper has them.
    """
    correctness = dataclasses.replace(
        CORRECTNESS,
        min_correct=options.min_correct,
        min_incorrect=options.min_incorrect,
        max_correct_drop=options.max_correct_drop,
        max_false_positive=options.max_false_positive,
    )
    optimization = dataclasses.replace(
        OPTIMIZATION,
        min_incorrect=min(OPTIMIZATION.min_incorrect, options.min_incorrect),
        max_correct_drop=options.max_correct_drop,
    )
    return correctness, optimization
