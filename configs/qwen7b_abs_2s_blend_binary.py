"""Qwen2.5 7B, 2 s filter, blend: in the paper pass@1 39.1, 24.4, 13.7, 5.2 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("abs_2s_blend_binary")
