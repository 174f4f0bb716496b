"""Qwen2.5 7B, MC and a timeout of 10 s: in the paper pass@1 46.4, 19.8, 8.8, 2.3 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("mc_10s_timeout")
