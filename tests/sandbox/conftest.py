"""The sandbox of most tests: one worker, in both places where programs run."""

from collections.abc import Iterator

import pytest

from sandbox import client
from tests.sandbox.engine import require_docker


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest) -> Iterator[client.Client]:
    """A client that answers nothing from what it has stored."""
    if request.param == "docker":
        require_docker()
    with client.connect(request.param, workers=1, reuse="never") as connected:
        yield connected
