"""Products with weights: the same values as a plain product, and gradients that move as little memory as they can.

Pure. The gradient of a matrix is a product over tokens, whose first factor compilers for CPU transpose; automatic
differentiation always puts the gradient of the output there, also where the input has fewer features.
"""

import functools
import math
import typing

import jax
import jax.numpy as jnp

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(
    x: "Float[Array, '*rest *inputs']", weights: "Float[Array, '*inputs *outputs']", inputs: int = 1
) -> "Float[Array, '*rest *outputs']":
    """Sum over the last `inputs` axes of `x`, which are the first ones of `weights`: [*rest, *outputs]."""
    return jnp.tensordot(x, weights, axes=inputs)


def _forward(x: "Array", weights: "Array", inputs: int) -> tuple["Array", tuple["Array", "Array"]]:
    return product(x, weights, inputs), (x, weights)


def _backward(inputs: int, kept: tuple["Array", "Array"], grad: "Array") -> tuple["Array", "Array"]:
    x, weights = kept
    rest = tuple(range(x.ndim - inputs))
    outputs = weights.ndim - inputs
    x_grad = jnp.tensordot(grad, weights, axes=(tuple(range(-outputs, 0)), tuple(range(inputs, weights.ndim))))
    if math.prod(weights.shape[:inputs]) <= math.prod(weights.shape[inputs:]):
        return x_grad, jnp.tensordot(x, grad, axes=(rest, rest))
    turned = jnp.tensordot(grad, x, axes=(rest, rest))
    return x_grad, jnp.moveaxis(turned, range(outputs), range(-outputs, 0))


product.defvjp(_forward, _backward)
