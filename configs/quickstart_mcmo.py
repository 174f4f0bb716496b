"""`make quickstart CONFIG=quickstart_mcmo`: same budget with more correctness and optimization tests, no ranking."""

import ml_collections

from configs import quickstart


def get_config() -> ml_collections.ConfigDict:
    config = quickstart.get_config("runs/quickstart_mcmo")
    config.environment.family = "mc_mo"
    config.environment.tolerance = 0.0
    config.reward.composition = "collapsed_binary"
    return config
