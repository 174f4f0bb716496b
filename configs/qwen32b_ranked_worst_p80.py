"""Qwen2.5 32B, timeout at the worst reference from p80: in the paper pass@1 54.4, 35.4, 21.3, 6.9 at p100/50/30/10."""

import ml_collections

from configs import qwen32b


def get_config() -> ml_collections.ConfigDict:
    return qwen32b.get_config("ranked_worst_p80")
