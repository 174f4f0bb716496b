"""The fast path against a fresh interpreter: the same bytes on both streams and the same status, idiom by idiom."""

import pytest

from sandbox.backends import docker, local
from sandbox.protocol import Limits, Suite
from tests.sandbox.comparison import FAST, FRESH, differences, outcomes
from tests.sandbox.engine import require_docker
from tests.sandbox.idioms import IDIOMS, INPUT

SUITE = Suite(inputs=(INPUT,), expected=(None,))
LIMITS = Limits(wall_s=10.0)


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def worker(request):
    if request.param == "docker":
        require_docker()
        (opened,) = docker.docker_workers(1)
    else:
        (opened,) = local.local_workers(1)
    yield opened
    opened.stop()


def test_there_are_many_idioms():
    assert len(set(IDIOMS)) == len(IDIOMS) >= 100


@pytest.mark.parametrize("index", range(len(IDIOMS)))
def test_an_idiom_behaves_as_in_a_fresh_interpreter(worker, index):
    program = IDIOMS[index]
    if "m.Pool" in program and worker.name.startswith("local"):
        pytest.skip(
            "without a control group, reserved stacks count: those of a fresh interpreter's threads are 512 MiB"
        )
    assert list(differences(worker, program, suite=SUITE, tests=[0], limits=LIMITS)) == []


def test_what_the_kernel_shows_of_the_environment_is_what_the_program_was_given():
    shown = "open('/proc/self/environ').read()[:-1].split(chr(0))"
    program = f"import os; print({shown} == [f'{{k}}={{v}}' for k, v in os.environ.items()])"
    (opened,) = local.local_workers(1)
    try:
        for language in (FAST, FRESH):
            assert outcomes(opened, program, language, suite=SUITE, tests=[0], limits=LIMITS) == [(0, b"True\n", b"")]
    finally:
        opened.stop()
