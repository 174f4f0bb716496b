"""`python -m optimrl_jax.simulate`: 2 cores, about 30 s; 1,578 environments over 1,000 synthetic problems.

A prepared dataset instead: --config.problems.source=dataset --config.problems.directory=D
"""

import ml_collections

from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.simulator.settings import SimulatorSettings


def get_config() -> ml_collections.ConfigDict:
    return ml_collections.ConfigDict(thaw(SimulatorSettings()))
