"""Qwen2.5 7B, timeout for each test at p30, 5k steps: in the paper pass@1 31.0, 19.4, 10.8, 3.9 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    config = qwen7b.get_config("rel_timeout_30")
    config.grpo.steps = 5_000
    return config
