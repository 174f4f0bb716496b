"""The 1,578 environments of the offline sweep, in the order in which every result of the simulator lists them."""

import dataclasses
import functools
import itertools
import typing

from optimrl_jax import environment

# Where a family intervenes (Figure 2): before, during or after execution.
STAGES = {
    "absolute_filter": "pre-execution",
    "length_filter": "pre-execution",
    "relative_filter": "pre-execution",
    "absolute_timeout": "intra-execution",
    "relative_timeout": "intra-execution",
    "ranked_timeout": "intra-execution",
    "qar_ranked": "post-execution",
    "qp_ranked": "post-execution",
}


@dataclasses.dataclass(frozen=True)
class Configuration:
    """One point of a family's grid.

    Attributes:
      family: a key of `environment.FAMILIES`.
      values: (field, value) of each environment field that the family reads, in the order of its grid.
    """

    family: str
    values: tuple[tuple[str, float | str], ...]

    @property
    def name(self) -> str:
        """Readable and unique name, such as `qp_ranked threshold=0.3`."""
        return " ".join([self.family, *(f"{field}={_text(value)}" for field, value in self.values)])

    def environment(self, *, alpha: float = 1.0, beta_s: float = 0.0) -> environment.Environment:
        """Build the environment to train in, under the calibration Gamma(d) = alpha * d + beta_s.

        Args:
          alpha: slope of Gamma, without unit.
          beta_s: offset of Gamma, seconds.
        """
        fields: dict[str, typing.Any] = dict(self.values)
        return environment.build(self.family, alpha=alpha, beta_s=beta_s, **fields)


@functools.cache
def configurations() -> tuple[Configuration, ...]:
    """List all points of all grids of Table 38: families in its order, the last field of a grid fastest."""
    return tuple(
        Configuration(family.name, tuple(zip(family.grid, values, strict=True)))
        for family in environment.FAMILIES.values()
        if family.grid
        for values in itertools.product(*family.grid.values())
    )


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
