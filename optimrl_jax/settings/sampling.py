"""Who samples the rollouts: an engine outside, or actors."""

import dataclasses

from optimrl_jax.jobs.checked_fields import (
    NAME,
    NOT_NEGATIVE,
    OPEN_SHARE,
    POSITIVE,
    WAIT_S,
    one_of,
    setting,
)


@dataclasses.dataclass(frozen=True)
class EngineSettings:
    """How the engine of `grpo.sampler` is used: a server of the OpenAI protocol, such as our own, vLLM or SGLang."""

    model: str = setting("policy", "model name that requests give", NAME)
    push: str = setting(
        "optimrl_jax.rollout.engine_client:push_weights",
        "module:function that gives the engine new weights (url, network, params, version); empty: it keeps its own",
    )
    requests: int = setting(16, "prompts asked for at the same time", POSITIVE)
    timeout_s: float = setting(600.0, "longest wait for the completions of a prompt, s", WAIT_S)
    importance_cap: float = setting(
        2.0, "most that a token counts for being likelier here than in the engine, as a ratio", POSITIVE
    )


@dataclasses.dataclass(frozen=True)
class ActorSettings:
    """Who samples and judges while the learner learns, where, and how learner and actors reach each other."""

    count: int = setting(0, "actors of all processes; 0: one that takes turns with the learner", NOT_NEGATIVE)
    live_in: str = setting(
        "threads", "where the actors live: here, or started by the user", one_of("threads", "processes", "elsewhere")
    )
    device_share: float = setting(
        0.5, "share of two or more devices that is the actors' alone (threads); 0: shared with the learner", OPEN_SHARE
    )
    item_problems: int = setting(
        0, "problems of one work item; 0: grpo.problems / actors.count, rounded up", NOT_NEGATIVE
    )
    listen: str = setting("", "tcp://host:port for actors of other processes; empty: a free port of the loopback")
    part_mib: int = setting(
        64, "most of the weights that one answer to an actor elsewhere carries, MiB; each has its own time", POSITIVE
    )
    heartbeat_s: float = setting(10.0, "s between signs of life; an actor that misses three is replaced", WAIT_S)
    patience_s: float = setting(600.0, "longest wait for any rollout, or for a lost learner, s", WAIT_S)
