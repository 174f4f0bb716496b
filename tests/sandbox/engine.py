"""Edge: whether a Docker engine with the sandbox's image is there for the tests that need one."""

import os

import pytest

from sandbox.backends import engine


def require_docker() -> None:
    """Skips with the reason where no engine or image answers, fails where OPTIMRL_REQUIRE_DOCKER=1 asks for one."""
    try:
        engine.require_image()
    except engine.DockerUnavailable as error:
        if os.environ.get("OPTIMRL_REQUIRE_DOCKER") == "1":
            raise
        pytest.skip(str(error))
