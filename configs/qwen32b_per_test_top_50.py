"""Qwen2.5 32B, top 50 % test by test: in the paper pass@1 55.5, 39.2, 24.2, 8.3 at p100/50/30/10."""

import ml_collections

from configs import qwen32b


def get_config() -> ml_collections.ConfigDict:
    return qwen32b.get_config("per_test_top_50")
