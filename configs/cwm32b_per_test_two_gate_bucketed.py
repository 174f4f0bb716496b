"""CWM 32B, rank test by test, two gates, buckets: in the paper pass@1 70.1, 46.6, 28.0, 8.6 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("per_test_two_gate_bucketed")
