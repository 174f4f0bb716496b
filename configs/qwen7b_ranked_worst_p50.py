"""Qwen2.5 7B, timeout at the worst reference from p50: in the paper pass@1 45.7, 23.6, 12.2, 3.7 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("ranked_worst_p50")
