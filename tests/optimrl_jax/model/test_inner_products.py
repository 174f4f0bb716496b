"""Products of vectors: the values and gradients of the elementwise form, whatever stands before the last axis."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from optimrl_jax.model.inner_products import inner_product, scale_vectors


@pytest.mark.parametrize("rest", [(), (1, 5), (2, 3), (1, 2, 2, 7)])
def test_values_and_gradients_are_those_of_the_elementwise_form(rest):
    draw = np.random.default_rng(0)
    x, y = (jnp.asarray(draw.normal(size=(*rest, 33)), jnp.float32) for _ in range(2))
    factor = jnp.asarray(draw.normal(size=rest), jnp.float32)

    def found(x, y, factor):
        return (inner_product(scale_vectors(x, factor), y) ** 2).sum()

    def expected(x, y, factor):
        return ((x * factor[..., None] * y).sum(axis=-1) ** 2).sum()

    values, grads = jax.value_and_grad(found, argnums=(0, 1, 2))(x, y, factor)
    expected_values, expected_grads = jax.value_and_grad(expected, argnums=(0, 1, 2))(x, y, factor)
    np.testing.assert_allclose(values, expected_values, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), grads, expected_grads)
