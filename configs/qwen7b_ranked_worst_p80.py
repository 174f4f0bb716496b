"""Qwen2.5 7B, timeout at the worst reference from p80: in the paper pass@1 45.0, 29.3, 17.7, 6.0 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("ranked_worst_p80")
