"""CWM 32B, MC and a timeout of 10 s: in the paper pass@1 71.1, 34.2, 15.7, 4.1 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("mc_10s_timeout")
