"""Every field with its default; other configurations start from this one and change a few fields.

Meaning, unit and range of each field stand beside it in `optimrl_jax/settings.py`.
"""

import ml_collections

from optimrl_jax import settings
from optimrl_jax.jobs.checked_fields import thaw


def get_config() -> ml_collections.ConfigDict:
    """Return all settings at their defaults, locked: a misspelt field raises at its line."""
    return ml_collections.ConfigDict(thaw(settings.Settings())).lock()
