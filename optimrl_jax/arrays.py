"""Axis letters and the pytrees that flow through the pure part: problem -> tests -> execution -> outcome -> rollouts.

Axis letters, everywhere in this package: `b` problems, `k` tests of a problem, `h` references, `r` rollouts of a
problem, `t` tokens, `s` packed rows, `v` vocabulary. Ragged problems are padded; every pytree carries the mask that
says what is real, and padding never changes a result.

The pytrees hold NumPy or JAX arrays alike. Constants and tables that several packages need stand here once, and random
streams are named here: one seed, and a named constant and numbers folded into it for everything that draws. Nothing in
this module does I/O.
"""

import typing
import zlib
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

# Enumerations are part of the arrays; they stand apart for those who build datasets and need no JAX.
from optimrl_jax.kinds import STATUS_OF_VERDICT as STATUS_OF_VERDICT
from optimrl_jax.kinds import Difficulty as Difficulty
from optimrl_jax.kinds import Status as Status
from optimrl_jax.kinds import TestKind as TestKind

# The pure part computes on NumPy arrays and on JAX arrays alike: what flows through it may be either.
Array: typing.TypeAlias = jax.Array | np.ndarray

# The service stops every run here; a recorded timeout counts as this long (App. C.1, "CES setup", and App. D.1).
CAP_S = 10.0
# Gates compare float32 shares with decimal constants such as 0.1: a share within this much above a bound still passes.
GATE_MARGIN = 1e-6


class Tests(typing.NamedTuple):
    """The tests of a problem.

    Attributes:
      kind: `[*b, k]` values of `TestKind`.
      characters: `[*b, k]` Unicode code points of input and expected output together.
      mask: `[*b, k]` False for padding.
    """

    __test__ = False

    kind: Int[Array, "*b k"]
    characters: Int[Array, "*b k"]
    mask: Bool[Array, "*b k"]


class References(typing.NamedTuple):
    """Stored human reference durations, before any calibration.

    Attributes:
      duration_s: `[*b, k, h]` seconds; a recorded timeout holds the cap of 10 s.
      std_s: `[*b, k, h]` stored standard deviations, seconds.
      is_usable: `[*b, k, h]` cells with a recorded run, timeouts included; failures, faults and padding are unusable.
    """

    duration_s: Float[Array, "*b k h"]
    std_s: Float[Array, "*b k h"]
    is_usable: Bool[Array, "*b k h"]


class Execution(typing.NamedTuple):
    """What candidate programs did on each test; seconds are never transformed.

    Attributes:
      status: `[*r, k]` values of `Status`.
      duration_s: `[*r, k]` measured seconds; 10 s for a timeout, 0 where nothing ran.
    """

    status: Int[Array, "*r k"]
    duration_s: Float[Array, "*r k"]

    @classmethod
    def stack(cls, runs: "Iterable[MeasuredRun]") -> "Execution":
        """Stack the runs of one problem, in order, into an execution `[r, k]` of NumPy arrays.

        Args:
          runs: at least one, each `[k]`.

        Raises:
          ValueError: without any run or where their numbers of tests differ.
        """
        runs = list(runs)
        return cls(np.stack([run.status for run in runs]), np.stack([run.duration_s for run in runs]))


class MeasuredRun(typing.Protocol):
    """One program on the tests of its problem: `status` [k] and `duration_s` [k]."""

    @property
    def status(self) -> np.ndarray: ...

    @property
    def duration_s(self) -> np.ndarray: ...


class Outcome(typing.NamedTuple):
    """The reward-facing interface of every environment (App. D.5, "Outcome"): lower q is better.

    Attributes:
      c: `[*r]` 1 where all correctness tests succeed, else 0.
      c_strict: `[*r]` 1 where, besides, no executed optimization test fails.
      g: `[*r]` the gate, 0 or 1; a probability where timing noise is averaged over.
      q: `[*r]` the quality in [0, 1], 0 best.
      is_valid: `[*r]` False where a fault of the sandbox leaves nothing to judge: masked, never rewarded.
    """

    c: Float[Array, "*r"]
    c_strict: Float[Array, "*r"]
    g: Float[Array, "*r"]
    q: Float[Array, "*r"]
    is_valid: Bool[Array, "*r"]


class Rollouts(typing.NamedTuple):
    """Sampled programs as tokens, ready for the update; each row is one rollout, padded on the right.

    Attributes:
      tokens: `[r, t]` token ids of prompt and completion.
      is_completion: `[r, t]` marks the sampled tokens, the end token included.
      log_prob: `[r, t]` log-probabilities under the policy that sampled the tokens; 0 everywhere else.
      policy_version: `[r]` optimizer steps that this policy had seen.
    """

    tokens: Int[Array, "r t"]
    is_completion: Bool[Array, "r t"]
    log_prob: Float[Array, "r t"]
    policy_version: Int[Array, " r"]


class AffineMap(typing.NamedTuple):
    """The map seconds -> slope * seconds + offset_s between two clocks; the default is the identity.

    Attributes:
      slope: without unit.
      offset_s: seconds, of either sign.
    """

    slope: float = 1.0
    offset_s: float = 0.0

    def __call__(self, seconds):
        """Map seconds, a number or an array of any shape."""
        return self.slope * seconds + self.offset_s

    def after(self, first: "AffineMap") -> "AffineMap":
        """Compose two maps: apply `first`, then this one."""
        return AffineMap(self.slope * first.slope, self.slope * first.offset_s + self.offset_s)


def array_module(*values: object) -> typing.Any:
    """Choose what computes on the values: `jax.numpy` where any of them is a JAX array or traced, NumPy otherwise."""
    return jnp if any(isinstance(value, jax.Array) for value in values) else np


def stream_key(seed: int, name: str, *numbers: int) -> jax.Array:
    """Derive the key of the random stream `name`.

    The same arguments give the same key in every process, so that a resumed job draws what it would have drawn.

    Args:
      seed: the one seed of the job.
      name: what draws; different names give independent streams.
      *numbers: folded in one after another, such as a step or a batch.

    Returns:
      A typed JAX key, without axes.
    """
    stream = jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))
    for number in numbers:
        stream = jax.random.fold_in(stream, number)
    return stream
