"""Products with weights: their gradients keep float32 sums, and rematerialization can keep what they return."""

import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax.model import decoder


def operands() -> tuple[jax.Array, jax.Array]:
    x_key, weight_key = jax.random.split(jax.random.key(0))
    return jax.random.normal(x_key, (64, 8), jnp.bfloat16), jax.random.normal(weight_key, (8, 16), jnp.float32)


def test_the_gradient_of_weights_is_not_rounded_to_the_type_of_the_activations():
    x, weights = operands()
    grad = jax.grad(lambda w: decoder.project(x, w).astype(jnp.float32).sum())(weights)
    exact = np.broadcast_to(np.asarray(x, np.float64).sum(axis=0)[:, None], weights.shape)
    assert grad.dtype == jnp.float32
    np.testing.assert_allclose(grad, exact, rtol=1e-6)
    assert (np.asarray(grad) != np.asarray(grad.astype(jnp.bfloat16), np.float32)).any()


def test_a_policy_that_keeps_products_finds_them():
    x, weights = operands()
    wide = x.astype(jnp.float32)

    def products(remat: str) -> int:
        def loss(w):
            hidden = jnp.tanh(decoder.project(wide, w))
            return jnp.tanh(decoder.project(hidden, w.T)).sum()

        kept = jax.checkpoint(loss, policy=decoder.POLICIES[remat])
        return str(jax.make_jaxpr(jax.grad(kept))(weights)).count("dot_general")

    # Two products forwards and two gradients of each; "block" computes both products once more.
    assert (products("dots"), products("block")) == (6, 8)
