"""Qwen2.5 32B, standard RLVR, base tests: in the paper pass@1 54.8, 21.1, 9.4, 2.4 at p100/50/30/10."""

import ml_collections

from configs import qwen32b


def get_config() -> ml_collections.ConfigDict:
    return qwen32b.get_config("standard_rlvr")
