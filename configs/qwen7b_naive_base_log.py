"""Qwen2.5 7B, raw seconds, base tests, log: in the paper pass@1 43.2, 18.0, 8.3, 2.3 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("naive_base_log")
