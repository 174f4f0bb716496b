"""One cache of compiled programs for a whole run of tests and every process it starts: they ask for the same ones."""

import os
import shutil
import tempfile

import pytest

CACHE, LEAST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
OWNED = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Before anything imports JAX, which reads these variables once; workers and children inherit them."""
    if CACHE not in os.environ:
        config.stash[OWNED] = tempfile.mkdtemp(prefix="compiled-")
        os.environ |= {CACHE: config.stash[OWNED], LEAST: "0.1"}


def pytest_unconfigure(config: pytest.Config) -> None:
    if OWNED in config.stash:
        shutil.rmtree(config.stash[OWNED], ignore_errors=True)
