"""Qwen2.5 32B, MC and optimization tests (MO): in the paper pass@1 60.0, 28.7, 14.2, 4.4 at p100/50/30/10."""

import ml_collections

from configs import qwen32b


def get_config() -> ml_collections.ConfigDict:
    return qwen32b.get_config("mc_optimization_tests")
