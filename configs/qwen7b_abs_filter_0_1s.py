"""Qwen2.5 7B, tests under 0.1 s: in the paper pass@1 46.7, 20.2, 9.2, 2.5 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("abs_filter_0.1s")
