"""`python -m optimrl_jax.simulate`: the same 1,578 environments in seconds, for a first look and for notebooks."""

import ml_collections

from configs import simulator


def get_config() -> ml_collections.ConfigDict:
    config = simulator.get_config()
    config.problems.problems = 64
    config.problems.tests = 32
    config.problems.references = 32
    config.schedule.steps = 100
    return config
