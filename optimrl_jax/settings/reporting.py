"""Where the figures of a job go while it runs."""

import dataclasses

from optimrl_jax.jobs.checked_fields import TEXTS, setting


@dataclasses.dataclass(frozen=True)
class MetricsSettings:
    """Where every step's figures go, beside `metrics.jsonl` in the workdir."""

    sinks: tuple[str, ...] = setting(
        ("tensorboard",),
        "what gets the figures: tensorboard, wandb, mlflow, trackio (each an extra of its own but the first), or "
        "FILE.py:FUNCTION of a MetricsRun",
        TEXTS,
    )
    project: str = setting("optimrl-jax", "project, or experiment, that wandb, mlflow and trackio put the run in")
    name: str = setting("", "what they call the run; empty: the last two parts of the workdir")
