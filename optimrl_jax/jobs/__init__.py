"""What every job is made of: its command line, checked settings, paths that a user names, files written atomically.

Imports nothing else of the project but `optimrl_jax.settings`, so that every package may import it.
"""
