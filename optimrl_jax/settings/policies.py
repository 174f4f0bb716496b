"""What is done with trained policies: comparing and serving them."""

import dataclasses

from optimrl_jax.jobs.checked_fields import (
    NAME,
    NOT_NEGATIVE,
    PORT,
    POSITIVE,
    one_of,
    setting,
)


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Which policies are compared, on which problems, and by which figures."""

    policies: tuple[tuple[str, str], ...] = setting(
        (),
        "(name, policy) of each to compare: workdir, workdir@step, published weights, http://host:port/v1#model; "
        "empty: that of the workdir and the one it started from",
    )
    samples: int = setting(20, "n, programs sampled a problem", POSITIVE)
    ks: tuple[int, ...] = setting(
        (1, 10), "k of pass@k", (lambda value: all(k >= 1 for k in value), "whole numbers from 1 to evaluation.samples")
    )
    taus: tuple[int, ...] = setting(
        (100, 50, 30, 10),
        "percentiles of p_tau",
        (lambda value: all(0 < tau <= 100 for tau in value), "percentiles in (0, 100]"),
    )
    resamples: int = setting(2000, "bootstrap resamples over problems", POSITIVE)
    problems: int = setting(0, "held-out problems to use; 0: all", NOT_NEGATIVE)
    every: int = setting(0, "steps of `train` between evaluations of its policy; 0: none", NOT_NEGATIVE)
    benchmark: str = setting("", "JSON Lines of problems with tests alone, instead of the held-out split")
    leaderboard: str = setting(
        "fresh",
        "reference durations to rank against: as stored, mapped to today, or of the same timing pass",
        one_of("stored", "affine", "fresh"),
    )


@dataclasses.dataclass(frozen=True)
class ServeSettings:
    """A policy behind an OpenAI-compatible endpoint."""

    host: str = setting("127.0.0.1", "address to listen on", NAME)
    port: int = setting(8080, "port to listen on; 0: any free one", PORT)
    name: str = setting("policy", "model name that requests give", NAME)
    rows: int = setting(8, "completions sampled together", POSITIVE)
    key: str = setting("", "key that requests have to carry (Authorization: Bearer KEY); empty: none")
    accepts_weights: bool = setting(False, "whoever may ask may also replace the weights (POST /v1/policy?version=N)")
    weights: str = setting("", "published weights to serve, as in grpo.init_from; empty: those of the workdir")
