"""CWM 32B, timeout at the worst reference from p80: in the paper pass@1 69.9, 49.7, 30.6, 9.8 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("ranked_worst_p80")
