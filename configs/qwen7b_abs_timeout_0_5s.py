"""Qwen2.5 7B, a timeout of 0.5 s: in the paper pass@1 47.3, 29.4, 17.5, 5.5 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("abs_timeout_0.5s")
