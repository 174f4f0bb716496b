"""Qwen2.5 7B, rank test by test, two tasks: in the paper pass@1 30.3, 21.8, 13.6, 4.8 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("per_test_multitask_binary")
