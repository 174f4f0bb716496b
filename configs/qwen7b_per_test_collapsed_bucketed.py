"""Qwen2.5 7B, rank test by test, collapsed buckets: in the paper pass@1 45.6, 30.1, 18.6, 5.7 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("per_test_collapsed_bucketed")
