"""Sections about the instrument itself: what timing passes agree on, and what the service did during training."""
