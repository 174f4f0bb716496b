"""Qwen2.5 7B, a timeout of 2 s: in the paper pass@1 46.6, 22.1, 10.6, 3.4 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("abs_timeout_2s")
