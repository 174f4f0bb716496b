"""Qwen2.5 7B, rank test by test, two gates, [0, 1]: in the paper pass@1 47.6, 24.3, 12.7, 4.2 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("per_test_two_gate_50_50")
