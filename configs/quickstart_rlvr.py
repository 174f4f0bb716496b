"""`make quickstart CONFIG=quickstart_rlvr`: same budget with standard RLVR; correctness rises, speed hardly moves."""

import ml_collections

from configs import quickstart


def get_config() -> ml_collections.ConfigDict:
    config = quickstart.get_config("runs/quickstart_rlvr")
    config.environment.family = "rlvr"
    config.reward.composition = "correctness_only"
    return config
