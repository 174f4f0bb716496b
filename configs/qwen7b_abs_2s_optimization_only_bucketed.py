"""Qwen2.5 7B, 2 s filter, speed alone in buckets: in the paper pass@1 0.0, 0.0, 0.0, 0.0 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("abs_2s_optimization_only_bucketed")
