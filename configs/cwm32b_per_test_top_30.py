"""CWM 32B, top 30 % test by test: in the paper pass@1 70.2, 50.4, 30.9, 9.8 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("per_test_top_30")
