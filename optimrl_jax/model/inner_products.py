"""Products of vectors, in the form that every compiler makes one fast pass of.

Pure; under the norms, the attention and the loss. Where the first axis has length 1, as it has with one row on a
device, the compiler for CPU (JAX 0.10) takes 6 to 12 times as long for the sum of an elementwise product. As a product
of vectors the same sum is fast for any shape; compilers for GPU and TPU turn it back into the elementwise form.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def inner_product(x: Float[Array, "*rest w"], y: Float[Array, "*rest w"]) -> Float[Array, "*rest"]:
    """Sum `x * y` over the last axis, with no factor rounded to fewer digits as in products of matrices.

    Args:
      x: `[*rest, w]`.
      y: `[*rest, w]`, of the same type.
    """
    return jnp.einsum("...w,...w->...", x, y, precision=jax.lax.Precision.HIGHEST)


@jax.custom_vjp
def scale_vectors(x: Float[Array, "*rest w"], factor: Float[Array, "*rest"]) -> Float[Array, "*rest w"]:
    """Multiply each vector by its factor; the gradient of the factors is an `inner_product`.

    Args:
      x: `[*rest, w]`.
      factor: `[*rest]`, of the same type.
    """
    return x * factor[..., None]


def _scale_forward(x: Array, factor: Array) -> tuple[Array, tuple[Array, Array]]:
    return scale_vectors(x, factor), (x, factor)


def _scale_backward(kept: tuple[Array, Array], grad: Array) -> tuple[Array, Array]:
    x, factor = kept
    return scale_vectors(grad, factor), inner_product(grad, x)


scale_vectors.defvjp(_scale_forward, _scale_backward)
