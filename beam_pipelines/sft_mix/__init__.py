"""Mixes of conversations for SFT, before they are learned from."""
