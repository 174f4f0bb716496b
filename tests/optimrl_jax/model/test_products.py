"""Products with weights against those that automatic differentiation knows: values and both gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.model.products import product


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(
    ("rest", "inputs", "outputs"),
    [((2, 5), (3,), (7,)), ((2, 5), (7,), (3,)), ((4,), (3,), (2, 4)), ((2, 5), (2, 4), (3,)), ((), (3,), (3,))],
)
def test_a_product_and_its_gradients_are_those_of_a_plain_one(rest, inputs, outputs, dtype):
    draw = np.random.default_rng(0)
    x, weights = (jnp.asarray(draw.normal(size=shape), dtype) for shape in (rest + inputs, inputs + outputs))
    found, pull = jax.vjp(lambda *factors: product(*factors, len(inputs)), x, weights)
    expected, plain_pull = jax.vjp(lambda *factors: jnp.tensordot(*factors, len(inputs)), x, weights)
    grad = jnp.asarray(draw.normal(size=rest + outputs), dtype)
    for one, other in zip((found, *pull(grad)), (expected, *plain_pull(grad)), strict=True):
        assert one.dtype == other.dtype == dtype
        np.testing.assert_allclose(one.astype(np.float32), other.astype(np.float32), rtol=2e-2, atol=2e-2)
