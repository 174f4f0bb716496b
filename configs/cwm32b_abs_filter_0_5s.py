"""CWM 32B, tests under 0.5 s: in the paper pass@1 70.9, 48.3, 28.6, 8.7 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("abs_filter_0.5s")
