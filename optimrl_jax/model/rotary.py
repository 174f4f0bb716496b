"""Rotary angles of a model: its frequencies, stretched the way the checkpoint was trained to long contexts.

Pure. A frequency makes `turns` = original context * frequency / (2 pi) turns over the context of the first training;
those that turn often tell neighbours apart and stay, those that turn less than once are divided by `rope_factor`.
"""

import math
import typing

import jax.numpy as jnp

from optimrl_jax.model import attention
from optimrl_jax.settings import ModelSettings

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float, Int


def rotation(positions: "Int[Array, 's t']", settings: ModelSettings) -> attention.Rotation:
    """Cosines and sines [s, t, 1, head_width / 2] for `attention.rotate`, scaled where the stretching asks for it."""
    by = attention.rotation(positions, frequencies(settings))
    scale = magnitude(settings)
    return by if scale == 1 else attention.Rotation(by.cos * scale, by.sin * scale)


def frequencies(settings: ModelSettings) -> "Float[Array, 'half']":
    """Radians a position of each pair of features, by `rope_scaling`; head_width / 2 of them, fastest first."""
    plain = attention.frequencies(settings.head_width, settings.rope_theta)
    return STRETCHES[settings.rope_scaling](plain, settings)


def magnitude(settings: ModelSettings) -> float:
    """Factor of cosines and sines: 0.1 ln(factor) + 1 under YaRN (which sharpens attention), 1 otherwise."""
    if settings.rope_scaling != "yarn" or settings.rope_factor <= 1:
        return 1.0
    return 0.1 * math.log(settings.rope_factor) + 1


def _none(plain: "Float[Array, 'half']", _: ModelSettings) -> "Float[Array, 'half']":
    return plain


def _linear(plain: "Float[Array, 'half']", settings: ModelSettings) -> "Float[Array, 'half']":
    return plain / settings.rope_factor


def _llama3(plain: "Float[Array, 'half']", settings: ModelSettings) -> "Float[Array, 'half']":
    """Stretched below `rope_slow_turns`, kept above `rope_fast_turns`, blended by the number of turns in between."""
    turns = settings.rope_original_tokens * plain / (2 * math.pi)
    slow, fast = settings.rope_slow_turns, settings.rope_fast_turns
    return _blend(plain, jnp.clip((turns - slow) / (fast - slow), 0, 1), settings)


def _yarn(plain: "Float[Array, 'half']", settings: ModelSettings) -> "Float[Array, 'half']":
    """As `_llama3`, but blended by the index of the pair between the two, rounded outwards to whole indices."""
    width = settings.head_width

    def index(turns: float) -> float:
        reach = math.log(settings.rope_original_tokens / (turns * 2 * math.pi))
        return width * reach / (2 * math.log(settings.rope_theta))

    first = max(math.floor(index(settings.rope_fast_turns)), 0)
    last = min(math.ceil(index(settings.rope_slow_turns)), width - 1)
    # The published rule widens an empty span by a thousandth.
    span = (last - first) or 0.001
    return _blend(plain, 1 - jnp.clip((jnp.arange(width // 2) - first) / span, 0, 1), settings)


def _blend(
    plain: "Float[Array, 'half']", kept: "Float[Array, 'half']", settings: ModelSettings
) -> "Float[Array, 'half']":
    return plain * kept + plain / settings.rope_factor * (1 - kept)


STRETCHES = {"none": _none, "linear": _linear, "llama3": _llama3, "yarn": _yarn}
