"""Every table and figure of an evaluation, from stored records alone: `python -m optimrl_jax.analyze`."""
