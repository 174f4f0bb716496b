"""What the sandbox promises, measured: `python -m tests.benchmarks.sandbox`."""
