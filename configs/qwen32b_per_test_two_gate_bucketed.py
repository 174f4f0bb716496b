"""Qwen2.5 32B, rank test by test, two gates, buckets: in the paper pass@1 59.6, 36.3, 21.8, 6.8 at p100/50/30/10."""

import ml_collections

from configs import qwen32b


def get_config() -> ml_collections.ConfigDict:
    return qwen32b.get_config("per_test_two_gate_bucketed")
