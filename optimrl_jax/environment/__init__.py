"""Environments: (tests, references, execution) -> (c, c_strict, g, q), as pure functions over padded arrays.

    env = environment.build("qp_ranked", threshold=0.3)
    outcome = environment.judge(env, tests, references, execution)
"""

from optimrl_jax.environment.composition import Environment, build, judge
from optimrl_jax.environment.families import FAMILIES, Family, family_named

__all__ = ["FAMILIES", "Environment", "Family", "build", "family_named", "judge"]
