"""Qwen2.5 7B, raw seconds, optimization tests, linear: in the paper pass@1 43.1, 21.7, 10.9, 3.6 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("naive_optimization_linear")
