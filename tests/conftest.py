"""One cache of compiled programs for a whole run of tests and every process it starts: they ask for the same ones.

What is compiled runs for a moment, so XLA's slow optimizations are off: a third less processor time in all.
"""

import os
import shutil
import tempfile

import pytest

CACHE, LEAST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
FLAGS, QUICK_TO_COMPILE = "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
OWNED = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Before anything imports JAX, which reads these variables once; workers and children inherit them."""
    if CACHE not in os.environ:
        config.stash[OWNED] = tempfile.mkdtemp(prefix="compiled-")
        os.environ |= {CACHE: config.stash[OWNED], LEAST: "0.05"}
    if QUICK_TO_COMPILE not in os.environ.get(FLAGS, ""):
        os.environ[FLAGS] = f"{os.environ.get(FLAGS, '')} {QUICK_TO_COMPILE}".strip()


def pytest_unconfigure(config: pytest.Config) -> None:
    if OWNED in config.stash:
        shutil.rmtree(config.stash[OWNED], ignore_errors=True)
