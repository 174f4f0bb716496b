"""The one composition of every environment: filter > limit > statuses > (c, c_strict, phi) > ranking > (g, q)."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from optimrl_jax.arrays import Execution, Outcome, References, Status, TestKind, Tests
from optimrl_jax.environment.calibration import CAP_S, calibrated
from optimrl_jax.environment.families import family_named
from optimrl_jax.environment.filters import FILTERS
from optimrl_jax.environment.limits import LIMITS
from optimrl_jax.environment.ranking import RANKINGS


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=("filter_limit", "limit", "tolerance", "threshold", "alpha", "beta_s"),
    meta_fields=("family", "aggregate", "bound", "ties"),
)
@dataclasses.dataclass(frozen=True)
class Environment:
    """A frozen description of an environment; a pytree whose numbers are traced and whose structure is static.

    `filter_limit` is a in s, L in characters or r in percent; `limit` is l in s or p_lambda in percent; both by family.
    `tolerance` is rho and `threshold` p, shares in [0, 1]; `alpha` and `beta_s` are the calibration Gamma.
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
) -> Environment:
    """An environment of the family of that name; raises ValueError naming field, value and what was expected."""
    family_named(family)
    for name, value, choices in (
        ("aggregate", aggregate, ("mean", "median")),
        ("bound", bound, ("max", "median")),
        ("ties", ties, ("first", "average")),
    ):
        if value not in choices:
            raise ValueError(f"environment.{name} = {value!r}: expected one of {', '.join(choices)}")
    for name, share in (("tolerance", tolerance), ("threshold", threshold)):
        if not 0 <= share <= 1:
            raise ValueError(f"environment.{name} = {share!r}: expected a share in [0, 1]")
    return Environment(
        family=family,
        filter_limit=float(filter_limit),
        limit=float(limit),
        tolerance=float(tolerance),
        threshold=float(threshold),
        alpha=float(alpha),
        beta_s=float(beta_s),
        aggregate=aggregate,
        bound=bound,
        ties=ties,
    )


def judge(environment: Environment, tests: Tests, references: References, execution: Execution) -> Outcome:
    """What the environment makes of `r` candidates of one problem: c, c_strict, g and q, each [r] (paper L2901-3134).

    `tests` [k], `references` [k, h], `execution` [r, k]. Lower q is better. A fault on any judged test makes a
    candidate invalid; a test that was not run counts as failed for correctness and as 10 s for ranking. Without a
    usable optimization test a ranked family is neutral: g = 1, q = 0 (SPEC section 3, 4).
    """
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
    g, q = _optimization(environment, retained, status, execution.duration_s, phi=phi)
    return Outcome(
        c=c.astype(jnp.float32), c_strict=c_strict.astype(jnp.float32), g=g.astype(jnp.float32), q=q, is_valid=is_valid
    )


def _optimization(environment, retained, status, duration_s, *, phi):
    """g and q: the timeout side, or the ranked side where the family ranks (the other side is neutral, L3127)."""
    ranking = family_named(environment.family).ranking
    if ranking == "none":
        return phi <= environment.tolerance + 1e-6, phi
    is_measured = (status == Status.SUCCESS) | (status == Status.FAILURE)
    ranked_s = jnp.where(is_measured, jnp.minimum(duration_s, CAP_S), CAP_S)
    q = RANKINGS[ranking](retained, ranked_s, ties=environment.ties)
    is_ranked = retained.is_usable.any()
    q = jnp.where(is_ranked, q, 0.0)
    return jnp.where(is_ranked, q <= environment.threshold + 1e-6, True), q


def _within(references: References, used: jnp.ndarray) -> References:
    """The references with every test outside `used` made unusable."""
    usable = references.is_usable & used[..., None]
    return references._replace(is_usable=usable, duration_s=jnp.where(usable, references.duration_s, jnp.inf))


def _is_any_of(kind: jnp.ndarray, kinds: frozenset[TestKind]) -> jnp.ndarray:
    return functools.reduce(jnp.logical_or, [jnp.asarray(kind) == one for one in sorted(kinds)])
