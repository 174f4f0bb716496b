"""Qwen2.5 32B, more correctness tests (MC): in the paper pass@1 56.4, 24.6, 11.3, 3.0 at p100/50/30/10."""

import ml_collections

from configs import qwen32b


def get_config() -> ml_collections.ConfigDict:
    return qwen32b.get_config("mc")
