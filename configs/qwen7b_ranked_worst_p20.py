"""Qwen2.5 7B, timeout at the worst reference from p20: in the paper pass@1 39.2, 26.6, 16.4, 5.6 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("ranked_worst_p20")
