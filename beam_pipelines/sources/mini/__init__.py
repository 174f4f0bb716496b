"""The corpus that ships with the package: small original problems with programs of three speeds and labelled mistakes.

Deterministic text, no network. Nothing here runs a shipped program; `verify` does, in the sandbox.
"""

from beam_pipelines.sources.mini.corpus import mini_families, mini_problems

__all__ = ["mini_families", "mini_problems"]
