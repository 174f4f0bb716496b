"""Qwen2.5 7B, 2 s filter, two gates: in the paper pass@1 45.7, 26.1, 14.9, 4.9 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("abs_2s_two_gate_binary")
