"""Every field with its default; other configurations start from these and change a few fields.

Meaning, unit and range of each field stand beside it in `optimrl_jax/settings`.
"""

import ml_collections

from optimrl_jax.jobs.config_files import default_config


def get_config() -> ml_collections.ConfigDict:
    """Return all settings at their defaults, locked: a misspelt field raises at its line."""
    return default_config()
