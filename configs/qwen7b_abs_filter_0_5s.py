"""Qwen2.5 7B, tests under 0.5 s: in the paper pass@1 46.5, 25.3, 13.3, 4.3 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("abs_filter_0.5s")
