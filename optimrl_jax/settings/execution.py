"""Where and how programs run."""

import dataclasses

from optimrl_jax.jobs.checked_fields import (
    PERCENT,
    POSITIVE_SHARE,
    at_most,
    one_of,
    setting,
)


@dataclasses.dataclass(frozen=True)
class SandboxSettings:
    """Where programs run, how their runs are timed, and what happens where a service gives up on one."""

    address: str = setting(
        "local",
        "who runs programs: docker, also with an engine's settings (docker?runtime=crun), http(s)://host:port of "
        "services, separated by commas, or local: without isolation",
    )
    workers: int = setting(2, "programs timed here at the same time, or requests under way to services", at_most(1024))
    limit_s: float = setting(10.0, "cap of one run, s", at_most(600))
    repeats: int = setting(1, "most timed executions of a test, on average over those of a program", at_most(100))
    precision: float = setting(
        0.02,
        "a repeated test whose two fastest runs agree within this share needs no more",
        POSITIVE_SHARE,
    )
    decision_percent: float = setting(
        0.0,
        "percentile of a test's references near which it is measured twice as precisely; 0: none",
        PERCENT,
    )
    reuse: str = setting("always", "execute equal programs of one pass once, or each", one_of("always", "never"))
    store: str = setting("", "file of executions that answer equal ones of later passes, seconds included; empty: none")
    duration: str = setting("wall", "clock that feeds rewards", one_of("wall", "cpu"))
    fallback_correctness: str = setting(
        "discard",
        "worth of this machine's verdict where no service settled a correctness test: none, itself, success a timeout",
        one_of("discard", "keep", "timeout"),
    )
    fallback_optimization: str = setting(
        "discard", "the same for optimization tests, whose seconds nobody has then", one_of("discard", "timeout")
    )
    fallback_backend: str = setting("local", "what runs programs on this machine then", one_of("local", "docker"))
    fallback_retries: int = setting(
        1, "immediate retries at a service before that", (lambda value: 0 <= value <= 10, "a whole number in [0, 10]")
    )
    quarantine: str = setting(
        "mark", "seconds of a degraded service: kept, or masked as faults", one_of("mark", "discard")
    )
    calibration: str = setting(
        "fixed",
        "stored seconds as environment.alpha and beta_s say, or also as the service's probes say it has drifted, or as "
        "a reference of each problem does that is timed again with its rollouts, where rewards read references",
        one_of("fixed", "follow", "references"),
    )
