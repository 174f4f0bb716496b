"""Qwen2.5 7B, tests under 10M characters: in the paper pass@1 45.6, 28.6, 16.8, 5.5 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("length_filter_10m")
