"""Environments: (tests, references, execution) -> (c, c_strict, g, q), as pure functions over padded arrays.

env = environment.build("qp_ranked", threshold=0.3)
outcome = environment.judge(env, tests, references, execution)
"""

from optimrl_jax.environment.adjudication import Environment, build, judge
from optimrl_jax.environment.checks import check, check_tau
from optimrl_jax.environment.families import FAMILIES, Family, family_named
from optimrl_jax.environment.metrics import METRICS, Metric, ranking_metrics
from optimrl_jax.environment.padding import bounded_shapes, shape_for
from optimrl_jax.environment.presets import PRESETS, ROW_ALIASES, Preset, preset, row_named
from optimrl_jax.environment.service import (
    FALLBACKS,
    SERVICE_STATES,
    ServiceState,
    is_burst,
    service_named,
    under_state,
)

__all__ = [
    "FALLBACKS",
    "FAMILIES",
    "METRICS",
    "PRESETS",
    "ROW_ALIASES",
    "SERVICE_STATES",
    "Environment",
    "Family",
    "Metric",
    "Preset",
    "ServiceState",
    "bounded_shapes",
    "build",
    "check",
    "check_tau",
    "family_named",
    "is_burst",
    "judge",
    "preset",
    "ranking_metrics",
    "row_named",
    "service_named",
    "shape_for",
    "under_state",
]
