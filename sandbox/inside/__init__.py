"""What stands beside `sandbox.runner` inside the isolation boundary: standard library alone, imports nothing else."""
