"""Reward compositions over signed components in [-1, 1] (App. D.4, Table 41).

Every function takes signed correctness `c`, signed strict correctness `c_strict`, a signed optimization signal `z` (the
gate g in binary variants, the mapped quality in graded ones), each `[*r]`, and the blend weight lambda, and returns
rewards in [-1, 1]. Corners: c = -1 is wrong, c_strict = 1 and z = -1 correct and slow, all 1 correct and fast.
"""

import jax.numpy as jnp
from jaxtyping import Float

from optimrl_jax.arrays import Array

Signed = Float[Array, "*r"]


def correctness_only(c: Signed, c_strict: Signed, z: Signed, weight: float) -> Signed:
    """Reward correctness alone, R = c: the control of standard RLVR."""
    return c


def optimization_only(c: Signed, c_strict: Signed, z: Signed, weight: float) -> Signed:
    """Reward speed alone, R = z: wrong programs may earn it."""
    return z


def collapsed(c: Signed, c_strict: Signed, z: Signed, weight: float) -> Signed:
    """Reward the conjunction, R = (1 + c_strict)(1 + z)/2 - 1.

    A correct but slow program can fall to the reward of a failure.
    """
    return (1 + c_strict) * (1 + z) / 2 - 1


def two_gate(c: Signed, c_strict: Signed, z: Signed, weight: float) -> Signed:
    """Reward correctness first, then quality in [0, 1]: R = (1 + c_strict)(1 + z)/4 - (1 - c_strict)/2."""
    return (1 + c_strict) * (1 + z) / 4 - (1 - c_strict) / 2


def blend(c: Signed, c_strict: Signed, z: Signed, weight: float) -> Signed:
    """Reward a weighted sum, R = weight * c + (1 - weight) * z: wrong programs may earn the second term."""
    return weight * c + (1 - weight) * z


def multitask(c: Signed, c_strict: Signed, z: Signed, weight: float) -> Float[Array, "*r 2"]:
    """Reward two streams, R = (c, z) on a new last axis; a rollout is trained on one of them."""
    return jnp.stack(jnp.broadcast_arrays(c, z), axis=-1)


FORMS = {
    "optimization_only": optimization_only,
    "collapsed": collapsed,
    "two_gate": two_gate,
    "blend": blend,
    "multitask": multitask,
}
COMPOSITIONS = {"correctness_only": (correctness_only, "binary")} | {
    f"{name}_{signal}": (form, signal) for name, form in FORMS.items() for signal in ("binary", "graded")
}
