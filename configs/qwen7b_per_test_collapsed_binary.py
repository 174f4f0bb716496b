"""Qwen2.5 7B, rank test by test, collapsed binary: in the paper pass@1 46.2, 31.3, 19.1, 6.0 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("per_test_collapsed_binary")
