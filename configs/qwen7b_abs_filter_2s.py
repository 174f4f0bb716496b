"""Qwen2.5 7B, tests under 2 s: in the paper pass@1 46.9, 29.2, 17.4, 5.7 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("abs_filter_2s")
