"""Qwen2.5 7B, 2 s filter, blend of buckets: in the paper pass@1 42.2, 21.9, 11.3, 3.6 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("abs_2s_blend_bucketed")
