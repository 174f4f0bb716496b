"""Axis letters and the pytrees that flow through the pure part: problem -> tests -> execution -> outcome -> rollouts.

Axis letters, everywhere in this package: `b` problems, `k` tests of a problem, `h` references, `r` rollouts of a
problem, `t` tokens, `s` packed rows, `v` vocabulary. Ragged problems are padded; every pytree carries the mask that
says what is real, and padding never changes a result.

The pytrees hold NumPy or JAX arrays alike. Random streams are named here too: one seed, and a named constant and
numbers folded into it for everything that draws.
"""

import enum
import typing
import zlib

import jax

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int


class Status(enum.IntEnum):
    """Three-way status of the paper (L2915) plus the two ways in which there is nothing to judge."""

    SUCCESS = 0
    TIMEOUT = 1
    FAILURE = 2
    FAULT = 3
    NOT_RUN = 4


class TestKind(enum.IntEnum):
    """Where a test comes from: T_0 (original), T_+ (added correctness tests) or T^O (optimization), paper L2936."""

    __test__ = False

    ORIGINAL = 0
    ADDED = 1
    OPTIMIZATION = 2


class Tests(typing.NamedTuple):
    """The tests of a problem. `kind` holds TestKind values, `characters` is len(input) + len(expected output)."""

    __test__ = False

    kind: "Int[Array, '*b k']"
    characters: "Int[Array, '*b k']"
    mask: "Bool[Array, '*b k']"


class References(typing.NamedTuple):
    """Stored human reference durations, untransformed, in seconds.

    `is_usable` marks (test, reference) cells with a recorded run, a recorded timeout included (its duration is the
    10 s cap); failures, faults and padding are unusable (SPEC section 3, 4). `std_s` is the stored standard deviation.
    """

    duration_s: "Float[Array, '*b k h']"
    std_s: "Float[Array, '*b k h']"
    is_usable: "Bool[Array, '*b k h']"


class Execution(typing.NamedTuple):
    """What a candidate program did on each test: Status values and measured seconds (never transformed)."""

    status: "Int[Array, '*r k']"
    duration_s: "Float[Array, '*r k']"


class Outcome(typing.NamedTuple):
    """The reward-facing interface of every environment (paper L3107): lower q is better, c, c_strict and g are 0 or 1.

    `is_valid` is False where a fault of the sandbox leaves nothing to judge: such a rollout is masked, never rewarded.
    """

    c: "Float[Array, '*r']"
    c_strict: "Float[Array, '*r']"
    g: "Float[Array, '*r']"
    q: "Float[Array, '*r']"
    is_valid: "Bool[Array, '*r']"


class Rollouts(typing.NamedTuple):
    """Sampled programs as tokens, ready for the update; rows are rollouts, padded on the right.

    `tokens` holds prompt and completion, `is_completion` marks the sampled tokens (end of sequence included),
    `log_prob` their log-probability under the policy that sampled them (0 elsewhere).
    """

    tokens: "Int[Array, 'r t']"
    is_completion: "Bool[Array, 'r t']"
    log_prob: "Float[Array, 'r t']"
    policy_version: "Int[Array, 'r']"


def stream_key(seed: int, name: str, *numbers: int) -> jax.Array:
    """The key of the stream `name`, further split by `numbers` (a step, a batch)."""
    stream = jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))
    for number in numbers:
        stream = jax.random.fold_in(stream, number)
    return stream
