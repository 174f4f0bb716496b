"""CWM 32B, more correctness tests (MC): in the paper pass@1 71.5, 35.5, 17.6, 5.0 at p100/50/30/10."""

import ml_collections

from configs import cwm32b


def get_config() -> ml_collections.ConfigDict:
    return cwm32b.get_config("mc")
