"""Qwen2.5 7B, standard RLVR, base tests: in the paper pass@1 43.5, 18.0, 7.7, 1.9 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("standard_rlvr")
