"""From seconds to a reward: the environment, the composition, and noise added on purpose."""

import dataclasses

from optimrl_jax.jobs.checked_fields import (
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    one_of,
    setting,
)


@dataclasses.dataclass(frozen=True)
class EnvironmentSettings:
    """Names of `optimrl_jax.environment.families` and the numbers that the family uses (others are ignored there)."""

    family: str = setting(
        "qp_ranked", "row of Table 38, or FILE.py:FUNCTION of (Tests, References, Execution), giving an Outcome"
    )
    filter_limit: float = setting(2.0, "a in s, L in characters or r in percent, by family", NOT_NEGATIVE)
    aggregate: str = setting("mean", "A of the duration filters", one_of("mean", "median"))
    limit: float = setting(10.0, "l in s or p_lambda in percent, by family", POSITIVE)
    bound: str = setting("max", "B of ranked timeouts", one_of("max", "median"))
    tolerance: float = setting(1.0, "rho, tolerated share of timeouts", SHARE)
    threshold: float = setting(0.3, "p of the ranked gate, share of the leaderboard", SHARE)
    ties: str = setting("first", "percentile of tied participants", one_of("first", "average"))
    alpha: float = setting(1.0, "slope of the affine calibration Gamma", POSITIVE)
    beta_s: float = setting(0.0, "offset of the affine calibration Gamma, s")
    noise_draws: int = setting(
        0, "draws of the stored timing errors to average outcomes over; 0: seconds at face value", NOT_NEGATIVE
    )
    noise_scale: float = setting(
        1.0, "factor on the stored deviations that draws use; 1/sqrt(n) where durations average n runs", NOT_NEGATIVE
    )
    most_noise: float = setting(
        1.0, "share of the spread of a test's references that may be noise; noisier tests are dropped", SHARE
    )
    limit_margin: float = setting(
        0.0, "stored standard deviations of a run by which limits are lengthened", NOT_NEGATIVE
    )


@dataclasses.dataclass(frozen=True)
class RewardSettings:
    """How an outcome becomes a reward."""

    composition: str = setting(
        "two_gate_binary",
        "name in `rewards.COMPOSITIONS` or TIMED_COMPOSITIONS, or FILE.py:FUNCTION of an `arrays.Outcome`",
    )
    quality_map: str = setting(
        "linear", "name in `rewards.QUALITY_MAPS`, or FILE.py:FUNCTION of q, giving a credit in [0, 1]"
    )
    blend_weight: float = setting(0.5, "lambda, weight of correctness in blends", SHARE)
    reliability_draws: int = setting(
        0,
        "draws of the stored timing errors that tell how much of a group's spread is noise; advantages shrink by it; "
        "0: none",
        (lambda value: value == 0 or value > 1, "0, or at least 2"),
    )


@dataclasses.dataclass(frozen=True)
class NoiseSettings:
    """Another state of the timing service, injected into training on purpose (App. C.12)."""

    service: str = setting("healthy", "name in `optimrl_jax.environment.SERVICE_STATES`; healthy: seconds as measured")
    burst_share: float = setting(1.0, "share of windows in which the service is in that state", SHARE)
    burst_batches: int = setting(1, "batches of rollouts in one window", POSITIVE)
