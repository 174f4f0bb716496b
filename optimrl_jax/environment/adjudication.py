"""The one pipeline of every environment: filter > limit > statuses > (c, c_strict, phi) > ranking > (g, q).

Stands between executions and rewards. It never runs a program and never decides what an outcome earns; every step is an
array function, so that a trainer, the simulator and the evaluation judge with the same code.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from optimrl_jax.arrays import CAP_S, GATE_MARGIN, Array, Execution, Outcome, References, Status, TestKind, Tests
from optimrl_jax.environment.calibration import calibrated
from optimrl_jax.environment.confidence import average_outcomes, noise_share, with_margin
from optimrl_jax.environment.families import family_named
from optimrl_jax.environment.filters import FILTERS
from optimrl_jax.environment.limits import LIMITS
from optimrl_jax.environment.ranking import RANKINGS
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.settings import EnvironmentSettings

# Numbers are traced, so that a sweep over them compiles once; names and counts are structure.
_TRACED = tuple(field.name for field in dataclasses.fields(EnvironmentSettings) if field.type is float)
_STATIC = tuple(field.name for field in dataclasses.fields(EnvironmentSettings) if field.type is not float)


@functools.partial(jax.tree_util.register_dataclass, data_fields=_TRACED, meta_fields=(*_STATIC, "leave_one_out"))
@dataclasses.dataclass(frozen=True)
class Environment(EnvironmentSettings):
    """A frozen description of an environment; a pytree whose numbers are traced and whose structure is static.

    The fields, with unit and range, are those of `settings.EnvironmentSettings`; numbers that a family does not use are
    carried along and ignored. `build` makes one and checks it.

    Attributes:
      leave_one_out: a reference that plays the candidate is ranked against the others only.
    """

    leave_one_out: bool = False


def build(family: str, *, leave_one_out: bool = False, **fields: float | str) -> Environment:
    """Build an environment of the named family.

    With `noise_draws` > 0, g becomes the probability of passing and q the expected position over that many draws of the
    stored timing errors (`confidence`); 0 takes every duration at face value.

    Args:
      family: a key of `FAMILIES`, the rows of App. D.2, "Environment definitions and screened parameter ranges".
      leave_one_out: rank a reference that plays the candidate against the other references only; `judge` then needs
        `own_reference`.
      **fields: fields of `settings.EnvironmentSettings`; those not given keep their defaults.

    Returns:
      A frozen environment, ready for `judge`.

    Raises:
      ValueError: for an unknown family or a value out of range, naming field, value and what was expected.
    """
    family_named(family)
    settings = freeze(EnvironmentSettings, {"family": family} | fields, path="environment.")
    return Environment(**vars(settings), leave_one_out=leave_one_out)


@jax.jit
def judge(
    environment: Environment,
    tests: Tests,
    references: References,
    execution: Execution,
    own_reference: Int[Array, " r"] | None = None,
) -> Outcome:
    """Judge `r` candidates of one problem: c, c_strict, g and q of each (App. D.2).

    Compiled once for each family and shape; vmap it over problems, or over environments of one structure. A fault on
    any judged test makes a candidate invalid. A test that was not run, because a hard failure had already settled the
    program, counts as failed for correctness and as 10 s for ranking. Without a usable optimization test a ranked
    family is neutral: g = 1, q = 0. The arrays are not validated here: `check` does that.

    Args:
      environment: made by `build`.
      tests: `[k]`.
      references: `[k, h]`, as stored.
      execution: `[r, k]`, as measured.
      own_reference: `[r]` index of the reference that each candidate is, -1 for none; read under `leave_one_out` only.

    Returns:
      The outcome, each field `[r]`; lower q is better.

    Raises:
      ValueError: for `leave_one_out` without `own_reference`.
    """
    if environment.leave_one_out and own_reference is None:
        raise ValueError("own_reference = None: expected the reference that each candidate is (leave_one_out)")

    def once(noisy: References, measured: Execution) -> Outcome:
        return _judge_once(environment, tests, noisy, measured, own_reference=own_reference)

    if environment.noise_draws == 0:
        return once(references, execution)
    references = references._replace(std_s=environment.noise_scale * references.std_s)
    return average_outcomes(once, references, execution, draws=environment.noise_draws)


def _judge_once(
    environment: Environment,
    tests: Tests,
    references: References,
    execution: Execution,
    *,
    own_reference: Int[Array, " r"] | None,
) -> Outcome:
    family = family_named(environment.family)
    is_correctness = tests.mask & _is_any_of(tests.kind, family.correctness)
    pool = tests.mask & (tests.kind == TestKind.OPTIMIZATION) & family.uses_optimization
    durations = calibrated(_restrict(references, pool), alpha=environment.alpha, beta_s=environment.beta_s)
    keep = FILTERS[family.filter](tests, durations, environment.filter_limit, aggregate=environment.aggregate)
    keep = keep & (noise_share(durations) <= environment.most_noise + GATE_MARGIN)
    retained = _restrict(durations, pool & keep)
    limit_s = LIMITS[family.limit](retained, environment.limit, bound=environment.bound)
    limit_s = with_margin(limit_s, retained, environment.limit_margin)
    used = pool & keep & ~jnp.isnan(limit_s)
    retained = _restrict(retained, used)
    # A success without seconds measured nothing: on a test whose seconds count that is a fault, not a fast program.
    status = jnp.asarray(execution.status)
    is_untimed = (status == Status.SUCCESS) & used & ~((execution.duration_s > 0) & (execution.duration_s < jnp.inf))
    status = jnp.where(is_untimed, Status.FAULT, status)
    is_late = (status == Status.SUCCESS) & used & (execution.duration_s >= limit_s)
    status = jnp.where(is_late, Status.TIMEOUT, status)

    succeeded, timed_out = status == Status.SUCCESS, status == Status.TIMEOUT
    c = jnp.all(succeeded | ~is_correctness, axis=-1)
    c_strict = c & jnp.all(succeeded | timed_out | ~used, axis=-1)
    phi = (timed_out & used).sum(axis=-1) / jnp.maximum(used.sum(), 1)
    is_valid = ~jnp.any((status == Status.FAULT) & (is_correctness | used), axis=-1)
    if family.ranking == "none":
        g, q = phi <= environment.tolerance + GATE_MARGIN, phi
    else:
        ranked_s = _ranked_s(status, execution.duration_s)
        g, q = _rank(environment, retained, ranked_s, own_reference=own_reference)
    return Outcome(*(part.astype(jnp.float32) for part in (c, c_strict, g, q)), is_valid=is_valid)


def _ranked_s(status: Int[Array, "r k"], duration_s: Float[Array, "r k"]) -> Float[Array, "r k"]:
    """Return the seconds that are ranked: as measured where the program ended by itself, else the cap of 10 s."""
    is_measured = (status == Status.SUCCESS) | (status == Status.FAILURE)
    return jnp.where(is_measured, jnp.minimum(duration_s, CAP_S), CAP_S)


def _rank(
    environment: Environment,
    retained: References,
    ranked_s: Float[Array, "r k"],
    *,
    own_reference: Int[Array, " r"] | None,
) -> tuple[Bool[Array, " r"], Float[Array, " r"]]:
    """Compute g_dur and q_dur; the timeout gate and the timeout share are neutral in ranked families."""
    rank = functools.partial(RANKINGS[family_named(environment.family).ranking], ties=environment.ties)
    if environment.leave_one_out:
        members = jnp.arange(jnp.shape(ranked_s)[0])

        def among_others(row: Array) -> tuple[Array, Array]:
            others = _leave_out(retained, jnp.asarray(own_reference)[row])
            return rank(others, ranked_s[row][None])[0], jnp.any(others.is_usable)

        q, is_ranked = jax.lax.map(among_others, members)
    else:
        q, is_ranked = rank(retained, ranked_s), jnp.any(retained.is_usable)
    q = jnp.where(is_ranked, q, 0.0)
    return (q <= environment.threshold + GATE_MARGIN) | ~is_ranked, q


def _restrict(references: References, used: Array) -> References:
    """Make every test outside `used` unusable."""
    return _keep_usable(references, references.is_usable & used[..., None])


def _leave_out(references: References, own_reference: Array) -> References:
    """Make one reference unusable; -1 leaves all of them as they are."""
    return _keep_usable(
        references, references.is_usable & (jnp.arange(references.is_usable.shape[-1]) != own_reference)
    )


def _keep_usable(references: References, is_usable: Array) -> References:
    return references._replace(is_usable=is_usable, duration_s=jnp.where(is_usable, references.duration_s, jnp.inf))


def _is_any_of(kind: Array, kinds: frozenset[TestKind]) -> Array:
    return functools.reduce(jnp.logical_or, [jnp.asarray(kind) == one for one in sorted(kinds)])
