"""Qwen2.5 7B, rank test by test, two tasks, buckets: in the paper pass@1 39.8, 26.7, 16.0, 5.5 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("per_test_multitask_bucketed")
