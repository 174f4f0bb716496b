"""Tests with other people's packages: minutes of installation, so that only `make test-ecosystem` runs them."""

import os
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items):
    if os.environ.get("OPTIMRL_ECOSYSTEM") == "1":
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="needs OPTIMRL_ECOSYSTEM=1, which make test-ecosystem sets"))
