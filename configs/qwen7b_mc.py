"""Qwen2.5 7B, more correctness tests (MC): in the paper pass@1 46.7, 19.8, 8.7, 2.4 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("mc")
