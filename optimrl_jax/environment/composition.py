"""The one composition of every environment: filter > limit > statuses > (c, c_strict, phi) > ranking > (g, q)."""

import dataclasses
import functools
import math
import typing

import jax
import jax.numpy as jnp

from optimrl_jax.arrays import Execution, Outcome, References, Status, TestKind, Tests
from optimrl_jax.environment.calibration import CAP_S, calibrated
from optimrl_jax.environment.confidence import averaged
from optimrl_jax.environment.families import family_named
from optimrl_jax.environment.filters import FILTERS
from optimrl_jax.environment.limits import LIMITS
from optimrl_jax.environment.ranking import RANKINGS

if typing.TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

# Gates compare float32 shares with decimal constants such as 0.1.
MARGIN = 1e-6


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=("filter_limit", "limit", "tolerance", "threshold", "alpha", "beta_s"),
    meta_fields=("family", "aggregate", "bound", "ties", "leave_one_out", "noise_draws"),
)
@dataclasses.dataclass(frozen=True)
class Environment:
    """A frozen description of an environment; a pytree whose numbers are traced and whose structure is static.

    `filter_limit` is a in s, L in characters or r in percent; `limit` is l in s or p_lambda in percent; both by family.
    `tolerance` is rho and `threshold` p, shares in [0, 1]; `alpha` and `beta_s` are the calibration Gamma. See `build`.
    """

    family: str
    filter_limit: float
    limit: float
    tolerance: float
    threshold: float
    alpha: float
    beta_s: float
    aggregate: str
    bound: str
    ties: str
    leave_one_out: bool
    noise_draws: int


def build(
    family: str,
    *,
    filter_limit: float = 2.0,
    aggregate: str = "mean",
    limit: float = 10.0,
    bound: str = "max",
    tolerance: float = 1.0,
    threshold: float = 0.3,
    ties: str = "first",
    alpha: float = 1.0,
    beta_s: float = 0.0,
    leave_one_out: bool = False,
    noise_draws: int = 0,
) -> Environment:
    """An environment of the family of that name; raises ValueError naming field, value and what was expected.

    Numbers that the family does not use are carried along and ignored. `leave_one_out` ranks a reference that plays
    the candidate against the others only. With `noise_draws` > 0, g is the probability of passing and q the expected
    position over that many draws of the stored timing errors (`confidence`); 0 takes every second at face value.
    """
    family_named(family)
    shares = {"tolerance": tolerance, "threshold": threshold}
    checks = (
        ("aggregate", aggregate, aggregate in ("mean", "median"), "one of mean, median"),
        ("bound", bound, bound in ("max", "median"), "one of max, median"),
        ("ties", ties, ties in ("first", "average"), "one of first, average"),
        *((name, share, 0 <= share <= 1, "a share in [0, 1]") for name, share in shares.items()),
        ("filter_limit", filter_limit, filter_limit >= 0, "a number that is not negative"),
        ("limit", limit, limit > 0, "a positive number"),
        ("alpha", alpha, 0 < alpha < math.inf, "a positive number"),
        ("beta_s", beta_s, math.isfinite(beta_s), "a finite number of seconds"),
        ("noise_draws", noise_draws, noise_draws >= 0, "a number that is not negative"),
    )
    for name, value, is_accepted, expected in checks:
        if not is_accepted:
            raise ValueError(f"environment.{name} = {value!r}: expected {expected}")
    numbers = {"filter_limit": filter_limit, "limit": limit, "alpha": alpha, "beta_s": beta_s} | shares
    return Environment(
        family=family,
        **{name: float(value) for name, value in numbers.items()},
        aggregate=aggregate,
        bound=bound,
        ties=ties,
        leave_one_out=leave_one_out,
        noise_draws=noise_draws,
    )


@jax.jit
def judge(
    environment: Environment,
    tests: Tests,
    references: References,
    execution: Execution,
    own_reference: "Int[Array, 'r'] | None" = None,
) -> Outcome:
    """What the environment makes of `r` candidates of one problem: c, c_strict, g and q, each [r] (paper L2901-3134).

    `tests` [k], `references` [k, h], `execution` [r, k], NumPy or JAX; compiled once for each family and shape. Lower
    q is better. A fault on any judged test makes a candidate invalid; a test that was not run, because a hard failure
    had already settled the program, counts as failed for correctness and as 10 s for ranking. Without a usable
    optimization test a ranked family is neutral: g = 1, q = 0 (SPEC section 3, 4).

    Environments with `leave_one_out` need `own_reference`: the index of the reference that each candidate is, -1 for
    none. Arrays are taken as they come; `check` says what is wrong with them.
    """
    if environment.leave_one_out and own_reference is None:
        raise ValueError("own_reference = None: expected the reference that each candidate is (leave_one_out)")

    def once(noisy: References, measured: Execution) -> Outcome:
        return _judge_once(environment, tests, noisy, measured, own_reference=own_reference)

    if environment.noise_draws == 0:
        return once(references, execution)
    return averaged(once, references, execution, draws=environment.noise_draws)


def _judge_once(environment, tests: Tests, references: References, execution: Execution, *, own_reference) -> Outcome:
    family = family_named(environment.family)
    is_correctness = tests.mask & _is_any_of(tests.kind, family.correctness)
    pool = tests.mask & (tests.kind == TestKind.OPTIMIZATION) & family.uses_optimization
    durations = calibrated(_within(references, pool), alpha=environment.alpha, beta_s=environment.beta_s)
    keep = FILTERS[family.filter](tests, durations, environment.filter_limit, aggregate=environment.aggregate)
    retained = _within(durations, pool & keep)
    limit_s = LIMITS[family.limit](retained, environment.limit, bound=environment.bound)
    used = pool & keep & ~jnp.isnan(limit_s)
    retained = _within(retained, used)
    status = jnp.asarray(execution.status)
    is_late = (status == Status.SUCCESS) & used & (execution.duration_s >= limit_s)
    status = jnp.where(is_late, Status.TIMEOUT, status)

    succeeded, timed_out = status == Status.SUCCESS, status == Status.TIMEOUT
    c = jnp.all(succeeded | ~is_correctness, axis=-1)
    c_strict = c & jnp.all(succeeded | timed_out | ~used, axis=-1)
    phi = (timed_out & used).sum(axis=-1) / jnp.maximum(used.sum(), 1)
    is_valid = ~jnp.any((status == Status.FAULT) & (is_correctness | used), axis=-1)
    if family.ranking == "none":
        g, q = phi <= environment.tolerance + MARGIN, phi
    else:
        g, q = _ranked(environment, retained, _ranked_s(status, execution.duration_s), own_reference=own_reference)
    return Outcome(*(part.astype(jnp.float32) for part in (c, c_strict, g, q)), is_valid=is_valid)


def _ranked_s(status: jax.Array, duration_s: jax.Array) -> "Float[Array, 'r k']":
    """Seconds that enter the leaderboard: measured ones where the program ended by itself, else the cap (L3098)."""
    is_measured = (status == Status.SUCCESS) | (status == Status.FAILURE)
    return jnp.where(is_measured, jnp.minimum(duration_s, CAP_S), CAP_S)


def _ranked(environment, retained: References, ranked_s: jax.Array, *, own_reference) -> tuple[jax.Array, jax.Array]:
    """g_dur and q_dur, [r] each; the other side of both is neutral in ranked families (L3127)."""
    rank = functools.partial(RANKINGS[family_named(environment.family).ranking], ties=environment.ties)
    if environment.leave_one_out:
        members = jnp.arange(jnp.shape(ranked_s)[0])

        def among_others(row: jax.Array) -> tuple[jax.Array, jax.Array]:
            others = _without(retained, jnp.asarray(own_reference)[row])
            return rank(others, ranked_s[row][None])[0], others.is_usable.any()

        q, is_ranked = jax.lax.map(among_others, members)
    else:
        q, is_ranked = rank(retained, ranked_s), retained.is_usable.any()
    q = jnp.where(is_ranked, q, 0.0)
    return (q <= environment.threshold + MARGIN) | ~is_ranked, q


def _within(references: References, used: jax.Array) -> References:
    """The references with every test outside `used` made unusable."""
    return _masked(references, references.is_usable & used[..., None])


def _without(references: References, own_reference: jax.Array) -> References:
    """The references with one of them made unusable; -1 leaves them as they are."""
    return _masked(references, references.is_usable & (jnp.arange(references.is_usable.shape[-1]) != own_reference))


def _masked(references: References, is_usable: jax.Array) -> References:
    return references._replace(is_usable=is_usable, duration_s=jnp.where(is_usable, references.duration_s, jnp.inf))


def _is_any_of(kind: jax.Array, kinds: frozenset[TestKind]) -> jax.Array:
    return functools.reduce(jnp.logical_or, [jnp.asarray(kind) == one for one in sorted(kinds)])
