"""`make quickstart CONFIG=quickstart_opt_only`: speed without correctness, 2 cores; p100 collapses, as in the paper."""

import ml_collections

from configs import quickstart


def get_config() -> ml_collections.ConfigDict:
    config = quickstart.get_config("runs/quickstart_opt_only")
    # Wrong programs run to the end on every test here, and those that never end would take most of the time.
    config.sandbox.limit_s = 0.15
    config.reward.composition = "optimization_only_binary"
    return config
