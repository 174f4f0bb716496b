"""Attention over packed rows as kernels of GPUs and TPUs that keep scores on the chip, forwards and backwards."""
