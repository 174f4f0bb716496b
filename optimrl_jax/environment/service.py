"""What a timing service in another state would have returned for the same programs (App. C.12).

Rollouts stay fixed; statuses and seconds are those of a slower, noisier or failing service. With a fresh key for each
step this is timing noise injected into training, with a list of states it is their replay. Intended limits are not
touched here: judging the new seconds applies them again.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from optimrl_jax.arrays import CAP_S, Array, Execution, Status, TestKind, Tests

# Around this many seconds the additional noise on short tests fades.
SHORT_S = 0.1
SHORTEST_S = 1e-6


def mask_lost(status, is_lost, is_optimization, quarantine_share):
    """Turn every lost test into a fault, which masks the rollout."""
    return jnp.where(is_lost, Status.FAULT, status)


def recover_verdicts(status, is_lost, is_optimization, quarantine_share):
    """Recover verdicts locally, but count a success on an optimization test as a timeout (App. C.4)."""
    return jnp.where(is_lost & is_optimization & (status == Status.SUCCESS), Status.TIMEOUT, status)


def lost_as_timeouts(status, is_lost, is_optimization, quarantine_share):
    """Count every lost test as a timeout: correct programs then fail with probability 1 - (1 - f)^n (App. C.5)."""
    return jnp.where(is_lost, Status.TIMEOUT, status)


def mask_bursts(status, is_lost, is_optimization, quarantine_share):
    """Recover verdicts until more than `quarantine_share` of all tests are lost; then make every test a fault."""
    was_run = status != Status.NOT_RUN
    lost_share = (is_lost & was_run).sum() / jnp.maximum(was_run.sum(), 1)
    settled = recover_verdicts(status, is_lost, is_optimization, quarantine_share)
    return jnp.where(lost_share > quarantine_share, jnp.where(was_run, Status.FAULT, settled), settled)


FALLBACKS = {
    "discard": mask_lost,
    "conservative": recover_verdicts,
    "timeout": lost_as_timeouts,
    "quarantine": mask_bursts,
}


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=(
        "slowdown", "added_low_s", "added_high_s", "scale_std", "short_std_s", "fault_share", "quarantine_share",
    ),
    meta_fields=("fallback",),
)  # fmt: skip
@dataclasses.dataclass(frozen=True)
class ServiceState:
    """A state of the service; the default one changes nothing.

    A measured duration d becomes d * slowdown * exp(scale_std N) + U(added_low_s, added_high_s) +
    short_std_s exp(-d / 0.1 s) |N|, with a standard normal N for each term.

    Attributes:
      slowdown: factor on every duration.
      added_low_s: least of the seconds added to every duration.
      added_high_s: most of them.
      scale_std: standard deviation of the logarithm of a random factor.
      short_std_s: seconds of additional noise, which fades for tests longer than 0.1 s.
      fault_share: probability that an executed test is lost.
      quarantine_share: share of lost tests above which "quarantine" trusts none.
      fallback: what settles a lost test, a name of `FALLBACKS`.
    """

    slowdown: float = 1.0
    added_low_s: float = 0.0
    added_high_s: float = 0.0
    scale_std: float = 0.0
    short_std_s: float = 0.0
    fault_share: float = 0.0
    quarantine_share: float = 0.05
    fallback: str = "conservative"


SERVICE_STATES: dict[str, ServiceState] = {
    "healthy": ServiceState(),
    "added_5_50_ms": ServiceState(added_low_s=0.005, added_high_s=0.05),
    "slow_15": ServiceState(slowdown=1.15),
    "slow_50": ServiceState(slowdown=1.5),
    "noisy_10": ServiceState(scale_std=0.1),
    "noisy_30": ServiceState(scale_std=0.3),
    "noisy_short_tests": ServiceState(short_std_s=0.02),
    "faults_discarded": ServiceState(fault_share=0.005, fallback="discard"),
    "faults_recovered": ServiceState(fault_share=0.005),
    "faults_as_timeouts": ServiceState(fault_share=0.005, fallback="timeout"),
    "burst": ServiceState(slowdown=1.3, scale_std=0.2, fault_share=0.05),
    "burst_quarantined": ServiceState(slowdown=1.3, scale_std=0.2, fault_share=0.05, fallback="quarantine"),
}


def service_named(name: str) -> ServiceState:
    """Look up a state of the service.

    Args:
      name: a key of `SERVICE_STATES`.

    Raises:
      ValueError: for an unknown name, listing the choices.
    """
    if name not in SERVICE_STATES:
        raise ValueError(f"noise.service = {name!r}: expected one of {', '.join(SERVICE_STATES)}")
    return SERVICE_STATES[name]


def validate_state(state: ServiceState) -> ServiceState:
    """Return the state unchanged where a service can be in it.

    Raises:
      ValueError: naming the first field that is out of range, its value and what was expected.
    """
    if state.fallback not in FALLBACKS:
        raise ValueError(f"service.fallback = {state.fallback!r}: expected one of {', '.join(FALLBACKS)}")
    for name in ("added_low_s", "added_high_s", "scale_std", "short_std_s"):
        if not 0 <= getattr(state, name) < math.inf:
            raise ValueError(f"service.{name} = {getattr(state, name)!r}: expected a number that is not negative")
    for name in ("fault_share", "quarantine_share"):
        if not 0 <= getattr(state, name) <= 1:
            raise ValueError(f"service.{name} = {getattr(state, name)!r}: expected a share in [0, 1]")
    if not 0 < state.slowdown < math.inf:
        raise ValueError(f"service.slowdown = {state.slowdown!r}: expected a positive number")
    if state.added_low_s > state.added_high_s:
        raise ValueError(f"service.added_low_s = {state.added_low_s!r}: expected at most {state.added_high_s}")
    return state


def under_state(state: ServiceState, tests: Tests, execution: Execution, *, key: Array) -> Execution:
    """Return the execution as the service would have reported it in `state`; the same key gives the same execution.

    A success that reaches the cap of 10 s becomes a timeout. Recorded timeouts, faults and tests that were not run keep
    their status, unless the fallback of the state settles them otherwise.

    Args:
      state: a state that `validate_state` accepts.
      tests: `[k]`.
      execution: `[r, k]` as recorded.
      key: draws noise and losses.

    Returns:
      An execution `[r, k]`.
    """
    scale_key, added_key, short_key, lost_key = jax.random.split(key, 4)
    status, duration_s = jnp.asarray(execution.status), jnp.asarray(execution.duration_s)
    scale = state.slowdown * jnp.exp(state.scale_std * jax.random.normal(scale_key, duration_s.shape))
    added_s = jax.random.uniform(added_key, duration_s.shape) * (state.added_high_s - state.added_low_s)
    short_s = (
        state.short_std_s * jnp.exp(-duration_s / SHORT_S) * jnp.abs(jax.random.normal(short_key, duration_s.shape))
    )
    is_measured = (status == Status.SUCCESS) | (status == Status.FAILURE)
    moved_s = jnp.maximum(duration_s * scale + state.added_low_s + added_s + short_s, SHORTEST_S)
    duration_s = jnp.where(is_measured & (duration_s > 0), moved_s, duration_s)
    status = jnp.where((status == Status.SUCCESS) & (duration_s >= CAP_S), Status.TIMEOUT, status)
    is_lost = (status != Status.NOT_RUN) & jax.random.bernoulli(lost_key, state.fault_share, duration_s.shape)
    is_optimization = jnp.asarray(tests.kind) == TestKind.OPTIMIZATION
    status = FALLBACKS[state.fallback](status, is_lost, is_optimization, state.quarantine_share)
    return Execution(status, jnp.where(status == Status.TIMEOUT, CAP_S, duration_s))


def is_burst(step: int, *, key: Array, share: float, steps: int) -> Bool[Array, ""]:
    """Say whether a burst covers this step: a `share` of all windows of `steps` optimizer steps is one.

    Depends on the step alone, so that a resumed run meets the same bursts.

    Args:
      step: optimizer step, from 0.
      key: of the bursts of a run.
      share: probability of a burst in each window.
      steps: length of a window.
    """
    return jax.random.bernoulli(jax.random.fold_in(key, step // steps), share)
