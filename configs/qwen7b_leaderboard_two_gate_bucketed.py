"""Qwen2.5 7B, leaderboard rank, two gates, buckets: in the paper pass@1 47.1, 27.5, 15.5, 5.1 at p100/50/30/10."""

import ml_collections

from configs import qwen7b


def get_config() -> ml_collections.ConfigDict:
    return qwen7b.get_config("leaderboard_two_gate_bucketed")
