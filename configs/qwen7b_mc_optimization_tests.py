"""Qwen2.5 7B, MC and optimization tests (MO): in the paper pass@1 46.9, 20.6, 9.3, 2.7 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("mc_optimization_tests")
