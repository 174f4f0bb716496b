"""`make study`: 2 cores, some hours; the rows that the paper's headline compares, on the embedded corpus.

`configs/study.py:ROW` is one of them: budget, dataset and start are those of the quickstart, and environment and reward
those of the row in `optimrl_jax.environment.PRESETS`, with limits on the corpus's scale of milliseconds.
"""

import ml_collections

from configs import quickstart
from optimrl_jax import environment
from optimrl_jax.jobs.checked_fields import did_you_mean
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.rollout.rewarder import can_stop_early
from optimrl_jax.study.plan import ROWS

__all__ = ["ROWS", "get_config"]
# The paper's 0.5 s are 5 % of its cap. On this corpus half of the references run longer than this.
TIMEOUT_S = 0.002
# Where a wrong program may earn something it is run on every test, and one that never ends costs the limit on each.
WHOLE_RUN_LIMIT_S = 0.15


def get_config(row: str = "per_test_top_30") -> ml_collections.ConfigDict:
    """Return the configuration of one row of the study.

    Args:
      row: one of `ROWS`.

    Raises:
      SettingsError: for another row, naming the choices.
    """
    if row not in ROWS:
        raise SettingsError(f"row = {row!r}: expected one of {', '.join(ROWS)}{did_you_mean(row, ROWS)}")
    config = quickstart.small_job(quickstart.ROOT)
    preset = environment.preset(row)
    config.environment.update(preset.environment)
    config.reward.update(preset.reward)
    if preset.environment["family"] == "absolute_timeout":
        config.environment.limit = TIMEOUT_S
    if not can_stop_early(environment.family_named(config.environment.family), config.reward.composition):
        config.sandbox.limit_s = WHOLE_RUN_LIMIT_S
    return config
