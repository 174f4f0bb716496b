"""Qwen2.5 7B, rank test by test, blend: in the paper pass@1 35.8, 25.4, 15.1, 5.2 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("per_test_blend_binary")
