"""Qwen2.5 32B, tests under 2 s: in the paper pass@1 48.2, 31.2, 19.2, 6.3 at p100/50/30/10."""

import ml_collections

from configs import qwen32b


def get_config() -> ml_collections.ConfigDict:
    return qwen32b.get_config("abs_filter_2s")
