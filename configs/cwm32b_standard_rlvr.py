"""CWM 32B, standard RLVR, base tests: in the paper pass@1 69.8, 30.7, 13.7, 3.3 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("standard_rlvr")
