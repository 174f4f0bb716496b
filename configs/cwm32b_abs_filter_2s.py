"""CWM 32B, tests under 2 s: in the paper pass@1 70.5, 49.1, 30.1, 9.5 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("abs_filter_2s")
