"""Qwen2.5 7B, raw seconds, optimization tests, log: in the paper pass@1 42.5, 21.2, 11.1, 3.5 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("naive_optimization_log")
