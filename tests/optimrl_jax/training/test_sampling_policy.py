"""Where a policy lies that is only sampled from: heads over what divides those of keys, weights over the rest."""

import dataclasses

import jax
import pytest

from optimrl_jax.training.sampling_policy import sampling_mesh
from tests.optimrl_jax.model import tiny

SHAPE = dataclasses.replace(tiny.SETTINGS, width=32, heads=4, kv_heads=2, mlp_width=48, vocabulary=40)


@pytest.mark.parametrize(("devices", "shape"), [(2, (1, 1, 1, 2)), (4, (1, 2, 1, 2)), (8, (1, 4, 1, 2))])
def test_heads_are_split_first_and_then_weights(devices, shape):
    assert sampling_mesh(SHAPE, jax.devices()[:1] * devices).devices.shape == shape


def test_what_does_not_divide_stays_on_one_device():
    assert sampling_mesh(SHAPE, jax.devices()[:1]) is None
    # Three devices share no head of two, and a width of 32 has no thirds.
    assert sampling_mesh(SHAPE, jax.devices()[:1] * 3) is None
