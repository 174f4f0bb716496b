"""CWM 32B, MC and optimization tests (MO): in the paper pass@1 71.5, 35.6, 17.1, 4.7 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("mc_optimization_tests")
