"""`make quickstart`: 2 cores, about 8 minutes after installation; ranked p30 at least doubles pass@1 at p30.

`configs/quickstart.py:VARIANT` has the same budget, dataset and start with another environment and reward; its jobs lie
in `runs/quickstart_VARIANT`.
"""

import ml_collections

from optimrl_jax import environment
from optimrl_jax.jobs.checked_fields import did_you_mean
from optimrl_jax.jobs.config_files import default_config
from optimrl_jax.jobs.errors import SettingsError

ROOT = "runs/quickstart"
RANKED = "ranked"


def _rlvr(config: ml_collections.ConfigDict) -> None:
    """Set up standard RLVR: correctness rises, speed hardly moves."""
    config.environment.family = "rlvr"
    config.reward.composition = "correctness_only"


def _mcmo(config: ml_collections.ConfigDict) -> None:
    """Add correctness and optimization tests, with no ranking."""
    config.environment.family = "mc_mo"
    config.environment.tolerance = 0.0
    config.reward.composition = "collapsed_binary"


def _opt_only(config: ml_collections.ConfigDict) -> None:
    """Reward speed without correctness: p100 collapses, as in the paper."""
    # Wrong programs run to the end on every test here, and those that never end would take most of the time.
    config.sandbox.limit_s = 0.15
    config.reward.composition = "optimization_only_binary"


def _external(config: ml_collections.ConfigDict) -> None:
    """Let `python -m optimrl_jax.serve` sample the rollouts of the same job; evaluate both."""
    config.serve.accepts_weights = True
    # All rollouts of a step at once, as the sampler of the job itself has them.
    config.serve.rows = config.grpo.problems * config.grpo.rollouts
    config.evaluation.policies = (*config.evaluation.policies, ("in_process", f"{ROOT}/grpo"))


VARIANTS = {
    RANKED: lambda config: None,
    "rlvr": _rlvr,
    "mcmo": _mcmo,
    "opt_only": _opt_only,
    "external": _external,
}
ROWS = tuple(VARIANTS)


def get_config(variant: str = RANKED) -> ml_collections.ConfigDict:
    """Return a variant of the quickstart; all share the dataset and the SFT policy.

    Args:
      variant: key of `VARIANTS`: which environment and reward GRPO has.

    Raises:
      SettingsError: for an unknown variant, naming the choices.
    """
    if variant not in VARIANTS:
        choices = ", ".join(VARIANTS)
        raise SettingsError(f"variant = {variant!r}: expected one of {choices}{did_you_mean(variant, VARIANTS)}")
    config = small_job(ROOT if variant == RANKED else f"{ROOT}_{variant}")
    VARIANTS[variant](config)
    return config


def small_job(run: str) -> ml_collections.ConfigDict:
    """Return the main job on the embedded corpus, with the paper's row of ranked p30.

    Args:
      run: directory of the runs that are this job's own, with its GRPO policy in `grpo`.
    """
    config = default_config()
    config.data.directory = f"{ROOT}/dataset"
    # The corpus's slowest programs take 30 ms; a program that never ends should not hold a core for 10 s.
    config.sandbox.limit_s = 0.5
    # These programs take a millisecond, and two cores of a shared machine drift by a quarter within minutes.
    config.sandbox.calibration = "references"
    ranked = environment.preset("per_test_top_30")
    config.environment.update(ranked.environment)
    config.reward.update(ranked.reward)
    # Few enough steps that the policy is still mediocre: it solves most problems, at any of the three speeds.
    config.sft.steps = 320
    config.grpo.steps = 80
    config.grpo.problems = 8
    # Larger steps reach the same speed and give up problems whole on the way (docs/study.md).
    config.grpo.learning_rate = 1.5e-4
    config.grpo.init_from = f"{ROOT}/sft"
    config.evaluation.policies = (("sft", f"{ROOT}/sft"), ("grpo", f"{run}/grpo"))
    return config
