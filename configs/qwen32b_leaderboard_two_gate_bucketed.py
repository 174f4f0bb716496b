"""Qwen2.5 32B, leaderboard rank, two gates, buckets: in the paper pass@1 59.3, 37.6, 22.8, 7.5 at p100/50/30/10."""

import ml_collections

from configs import qwen32b


def get_config() -> ml_collections.ConfigDict:
    return qwen32b.get_config("leaderboard_two_gate_bucketed")
