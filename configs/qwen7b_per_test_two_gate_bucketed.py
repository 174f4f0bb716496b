"""Qwen2.5 7B, rank test by test, two gates, buckets: in the paper pass@1 46.5, 25.4, 13.8, 4.4 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("per_test_two_gate_bucketed")
