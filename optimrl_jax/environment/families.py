"""The twelve environment families as data: which filter, limit and ranking each one composes.

They are the rows of App. D.2, "Environment definitions and screened parameter ranges" (Table 38).

A family is structure and therefore static under `jit`; the numbers that it uses are traced, so that one compiled
program serves a whole sweep.
"""

import dataclasses

from optimrl_jax.arrays import TestKind
from optimrl_jax.environment.filters import TIMED_FILTERS
from optimrl_jax.environment.limits import TIMED_LIMITS

DURATIONS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
CHARACTERS = tuple(10.0**power for power in range(2, 9))
PERCENTS = tuple(float(percent) for percent in range(10, 100, 10))
TOLERANCES = (0.0, 0.01, 0.02, 0.05, 0.10, 0.20, 0.50, 0.90)
THRESHOLDS = tuple(tenth / 10 for tenth in range(1, 10))
BOUNDS = ("max", "median")

_BASE = frozenset({TestKind.ORIGINAL})
_MORE = frozenset({TestKind.ORIGINAL, TestKind.ADDED})


@dataclasses.dataclass(frozen=True)
class Family:
    """One row of Table 38: the stages that an environment composes.

    Attributes:
      name: the argument of `build`.
      correctness: kinds of tests that decide c.
      uses_optimization: whether optimization tests are executed and judged.
      filter: a key of `filters.FILTERS`; "none" is neutral, here and below.
      limit: a key of `limits.LIMITS`.
      ranking: a key of `ranking.RANKINGS`, or "none".
      uses_own_limits: tests run under the problem's own time limit tau_t instead of the service's cap of 10 s.
      grid: environment fields that the family reads, each with the values of the paper's offline sweep; the product of
        their numbers is the number of the family's configurations.
    """

    name: str
    correctness: frozenset[TestKind] = _MORE
    uses_optimization: bool = True
    filter: str = "none"
    limit: str = "none"
    ranking: str = "none"
    uses_own_limits: bool = False
    grid: dict[str, tuple] = dataclasses.field(default_factory=dict)

    @property
    def kinds(self) -> frozenset[TestKind]:
        """Kinds of tests that have to be executed to judge a candidate."""
        return self.correctness | ({TestKind.OPTIMIZATION} if self.uses_optimization else frozenset())

    @property
    def reads_references(self) -> bool:
        """Whether stored seconds of references are read: by the ranking, the filter or the limit."""
        return self.ranking != "none" or self.filter in TIMED_FILTERS or self.limit in TIMED_LIMITS


def _filtered(name: str, values: tuple[float, ...], *, filter_name: str) -> Family:
    grid = {"filter_limit": values, "limit": DURATIONS_S, "tolerance": TOLERANCES}
    return Family(name, filter=filter_name, limit="absolute", grid=grid)


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("rlvr", correctness=_BASE, uses_optimization=False, uses_own_limits=True),
        Family("mc", uses_optimization=False, uses_own_limits=True),
        Family("mc_tloc", uses_optimization=False),
        Family("mc_mo"),
        _filtered("absolute_filter", DURATIONS_S, filter_name="absolute"),
        _filtered("length_filter", CHARACTERS, filter_name="length"),
        _filtered("relative_filter", PERCENTS, filter_name="relative"),
        Family("absolute_timeout", limit="absolute", grid={"limit": DURATIONS_S, "tolerance": TOLERANCES}),
        Family("relative_timeout", limit="relative", grid={"limit": PERCENTS, "tolerance": TOLERANCES}),
        Family("ranked_timeout", limit="ranked", grid={"limit": PERCENTS, "bound": BOUNDS, "tolerance": TOLERANCES}),
        Family("qar_ranked", ranking="qar", grid={"threshold": THRESHOLDS}),
        Family("qp_ranked", ranking="qp", grid={"threshold": THRESHOLDS}),
    )
}


def family_named(name: str) -> Family:
    """Look up a family by name.

    Args:
      name: a key of `FAMILIES`.

    Raises:
      ValueError: for an unknown name, listing the choices.
    """
    if name not in FAMILIES:
        raise ValueError(f"environment.family = {name!r}: expected one of {', '.join(FAMILIES)}")
    return FAMILIES[name]
