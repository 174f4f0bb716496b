"""`python -m optimrl_jax.simulate`: 2 cores, about 30 s; 1,578 environments over 1,000 synthetic problems.

`configs/simulator.py:quick` takes a few seconds, for a first look and for notebooks. A prepared dataset instead of
synthetic problems: --config.problems.source=dataset --config.problems.directory=D

`configs/simulator.py:uncertainty` (about 40 s) asks when rewards that know the clock's noise help, see
docs/uncertainty.md; `configs/simulator.py:recorded` (about 3 min) asks it of the rollouts of a training run, that of
`make quickstart` unless --config.recorded.run=W names another; `configs/simulator.py:noise` (about 10 s) draws the
noise study of the paper's App. A.
"""

import ml_collections

from optimrl_jax.jobs.checked_fields import did_you_mean, thaw
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.simulator.settings import SimulatorSettings

SIZES = ("whole", "quick", "uncertainty", "recorded", "noise")


def get_config(size: str = "whole") -> ml_collections.ConfigDict:
    """Return the settings of the simulator.

    Args:
      size: "whole", or "quick" for fewer problems, tests, references and steps; "uncertainty",
        "recorded" and "noise" are the other studies.

    Raises:
      SettingsError: for an unknown size, naming the choices.
    """
    if size not in SIZES:
        raise SettingsError(f"size = {size!r}: expected one of {', '.join(SIZES)}{did_you_mean(size, SIZES)}")
    config = ml_collections.ConfigDict(thaw(SimulatorSettings()))
    if size in ("uncertainty", "recorded", "noise"):
        config.study = size
    config.recorded.run = "runs/quickstart/grpo"
    if size == "quick":
        config.problems.problems = 64
        config.problems.tests = 32
        config.problems.references = 32
        config.schedule.steps = 100
    return config
