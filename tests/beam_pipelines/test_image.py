"""The container image of a worker names what is in the repository, at the versions of the lock."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
DOCKERFILE = (ROOT / "beam_pipelines" / "image" / "Dockerfile").read_text()


def test_the_image_copies_what_is_there():
    for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources), line


def test_the_harness_has_the_version_of_the_lock():
    (locked,) = re.findall(r"^apache-beam==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert f"FROM apache/beam_python3.11_sdk:{locked}\n" in DOCKERFILE
