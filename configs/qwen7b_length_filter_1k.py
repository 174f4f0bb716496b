"""Qwen2.5 7B, tests under 1k characters: in the paper pass@1 46.7, 20.0, 8.8, 2.0 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("length_filter_1k")
