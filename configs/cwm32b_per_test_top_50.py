"""CWM 32B, top 50 % test by test: in the paper pass@1 71.4, 48.9, 29.4, 9.4 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("per_test_top_50")
