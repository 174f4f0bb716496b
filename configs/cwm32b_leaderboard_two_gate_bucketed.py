"""CWM 32B, leaderboard rank, two gates, buckets: in the paper pass@1 71.2, 49.0, 29.9, 9.3 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("leaderboard_two_gate_bucketed")
