"""Qwen2.5 32B, MC and a timeout of 10 s: in the paper pass@1 59.4, 26.5, 12.7, 3.6 at p100/50/30/10."""

import ml_collections

from configs import qwen32b


def get_config() -> ml_collections.ConfigDict:
    return qwen32b.get_config("mc_10s_timeout")
