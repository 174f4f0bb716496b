"""Settings of the simulator: where problems come from, the schedule of a simulated run, what counts as degenerate."""

import dataclasses

from optimrl_jax.jobs.checked_fields import NOT_NEGATIVE, POSITIVE, SEED, SHARE, one_of, section, setting


@dataclasses.dataclass(frozen=True)
class ProblemSettings:
    """Where problems come from."""

    source: str = setting(
        "synthetic", "made up at the paper's scale, or a prepared dataset", one_of("synthetic", "dataset")
    )
    problems: int = setting(1000, "synthetic problems; of a dataset at most that many, 0: all", NOT_NEGATIVE)
    tests: int = setting(119, "synthetic tests of a problem", POSITIVE)
    references: int = setting(128, "synthetic references of a problem", POSITIVE)
    directory: str = setting("", "prepared DMC-Optim dataset, where source is dataset")
    split: str = setting("rl_train", "its split")
    alpha: float = setting(1.0, "slope of the affine calibration Gamma", POSITIVE)
    beta_s: float = setting(0.0, "offset of the affine calibration Gamma, s")


@dataclasses.dataclass(frozen=True)
class ScheduleSettings:
    """A simulated run (App. E.1); the paper gives no numbers."""

    steps: int = setting(200, "steps, from the weakest references to the strongest", (lambda v: v >= 2, "at least 2"))
    problems: int = setting(32, "problems of one step", POSITIVE)
    samples: int = setting(4, "references sampled in each problem of a step", POSITIVE)
    band: float = setting(0.05, "half width of the quality band around the target, share of the leaderboard", SHARE)
    window: int = setting(21, "moving average, steps", POSITIVE)


@dataclasses.dataclass(frozen=True)
class DegenerateSettings:
    """What counts as an environment that cannot teach (App. E.2)."""

    least_auc: float = setting(0.05, "raw AUC below which an environment is sparse", SHARE)
    most_auc: float = setting(0.95, "raw AUC above which an environment is saturated", SHARE)
    least_correlation: float = setting(0.1, "raw quality-correlation below which an environment is unordered", SHARE)


RANKED_AND_LIMITED = ("qar_ranked", "qp_ranked", "absolute_timeout")
SHARES = (lambda values: len(values) > 0 and all(0 < value < 1 for value in values), "shares between 0 and 1")


@dataclasses.dataclass(frozen=True)
class UncertaintySettings:
    """The study of rewards that know how uncertain seconds are."""

    families: tuple[str, ...] = setting(
        RANKED_AND_LIMITED,
        "environments whose gate is studied",
        (
            lambda names: len(names) > 0 and set(names) <= set(RANKED_AND_LIMITED),
            f"some of {', '.join(RANKED_AND_LIMITED)}",
        ),
    )
    noises: tuple[float, ...] = setting((0.01, 0.03, 0.1, 0.3), "standard deviations of a single run", SHARES)
    repeats: tuple[int, ...] = setting(
        (1, 5), "runs of a program on each test", (lambda values: values and min(values) > 0, "positive numbers")
    )
    gaps: tuple[float, ...] = setting(
        (0.02, 0.05, 0.1, 0.2), "how much faster than the gate, or slower, natural logarithm of the ratio", SHARES
    )
    spreads: tuple[float, ...] = setting(
        (0.01, 0.05, 0.3), "deviations of the logarithm of seconds within a group of rollouts", SHARES
    )
    measurements: int = setting(200, "of each program under each clock", (lambda v: v > 1, "at least 2"))
    draws: int = setting(32, "redrawn measurements of each", (lambda v: v > 1, "at least 2"))


@dataclasses.dataclass(frozen=True)
class RecordedSettings:
    """The study of a training run's rollouts on clocks of known noise."""

    run: str = setting("", "workdir of a GRPO run that kept its rollouts and whose dataset is there")
    noises: tuple[float, ...] = setting((0.03, 0.1, 0.3, 0.6), "standard deviations of a single run", SHARES)
    groups: int = setting(160, "groups of rollouts, spread over the run", POSITIVE)
    draws: int = setting(4, "measurements of each rollout on each clock", POSITIVE)
    redraws: int = setting(32, "redrawn measurements of each", (lambda v: v > 1, "at least 2"))


@dataclasses.dataclass(frozen=True)
class SimulatorSettings:
    """All settings of the simulator's job."""

    study: str = setting(
        "environments",
        "what to simulate: all environments, rewards under an uncertain clock, the same on the rollouts of a run, or "
        "which metric noise spares (App. A)",
        one_of("environments", "uncertainty", "recorded", "noise"),
    )
    seed: int = setting(0, "the one seed of problems and schedule", SEED)
    problems: ProblemSettings = section(ProblemSettings)
    schedule: ScheduleSettings = section(ScheduleSettings)
    degenerate: DegenerateSettings = section(DegenerateSettings)
    uncertainty: UncertaintySettings = section(UncertaintySettings)
    recorded: RecordedSettings = section(RecordedSettings)
    trials: int = setting(2000, "pairs at each point of the noise study", POSITIVE)
    training_runs: tuple[tuple[str, str], ...] = setting(
        (),
        "(environment, workdir) of training runs whose pass rates stand beside the simulated curve of the environment",
    )
    least_steps: int = setting(
        10_000, "online runs of fewer steps are left out of correlations, where the CSV has `steps`", NOT_NEGATIVE
    )
    online_scores: str = setting("", "CSV of online runs (label, configuration, p...); empty: the paper's 20 runs")
