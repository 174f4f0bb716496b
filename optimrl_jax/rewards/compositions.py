"""Reward compositions: the six families of the table at L3325, over signed components in [-1, 1].

Each takes signed correctness `c`, signed strict correctness `c_strict`, a signed optimization signal `z` (the gate g in
binary variants, the mapped quality in graded ones) and the blend weight, and returns rewards in [-1, 1].
"""

import jax.numpy as jnp


def correctness_only(c, c_strict, z, weight):
    """R = c: the standard RLVR control."""
    return c


def optimization_only(c, c_strict, z, weight):
    """R = z: speed without any correctness; wrong programs may earn it."""
    return z


def collapsed(c, c_strict, z, weight):
    """R = (1 + c_strict)(1 + z)/2 - 1: a conjunction; a correct slow program can fall to the reward of a failure."""
    return (1 + c_strict) * (1 + z) / 2 - 1


def two_gate(c, c_strict, z, weight):
    """R = (1 + c_strict)(1 + z)/4 - (1 - c_strict)/2: correctness first, then quality in [0, 1]."""
    return (1 + c_strict) * (1 + z) / 4 - (1 - c_strict) / 2


def blend(c, c_strict, z, weight):
    """R = weight * c + (1 - weight) * z: a soft sum; wrong programs may earn the second term."""
    return weight * c + (1 - weight) * z


def multitask(c, c_strict, z, weight):
    """R = (c, z) as two streams stacked on a new last axis; a rollout is trained on one of them (`stream`)."""
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
