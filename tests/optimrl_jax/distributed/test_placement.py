"""Devices of actors and learner are apart where there are enough, and weights are copied, not shared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.distributed.placement import Placement, device_sets
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.settings import ActorSettings, MeshSettings


@pytest.mark.parametrize(
    ("devices", "mesh", "actors", "expected"),
    [
        (8, {"data": 4}, {"count": 2}, ((4, 5), (6, 7))),
        (8, {"data": 4}, {"count": 3}, ((4,), (5,), (6,))),
        (8, {"fsdp": 6}, {"count": 4, "device_share": 0.25}, ((6,), (7,), (6,), (7,))),
        (8, {"data": 8}, {"count": 2, "device_share": 0.0}, ((0,), (0,))),
        (1, {}, {"count": 2}, ((0,), (0,))),
    ],
)
def test_actors_share_out_the_last_devices(devices, mesh, actors, expected):
    assert device_sets(range(devices), MeshSettings(**mesh), ActorSettings(**actors)) == expected


def test_a_mesh_that_needs_the_devices_of_the_actors_is_refused():
    with pytest.raises(SettingsError, match=r"expected at most 4 of 8 devices .*device_share = 0\.5"):
        device_sets(range(8), MeshSettings(data=2, tensor=4), ActorSettings(count=1))


def test_weights_of_an_actor_stay_when_the_learner_donates_its_own():
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    weights = jnp.zeros((64, 64))
    placement = Placement((jax.devices()[0],))
    for step in range(20):
        copy = placement.put({"embedding": weights})["embedding"]
        weights = add(weights)
        assert np.unique(np.asarray(copy)).tolist() == [step]
