"""The fast path against a fresh interpreter: the same bytes on both streams and the same status, idiom by idiom."""

import re

import pytest

from sandbox.backends import docker, local
from sandbox.backends.worker import SandboxWorker
from sandbox.protocol import Limits, Suite
from tests.sandbox.engine import require_docker
from tests.sandbox.idioms import IDIOMS, INPUT

SUITE = Suite(inputs=(INPUT,), expected=(None,))
LIMITS = Limits(wall_s=10.0)
# What differs from one run of an interpreter to the next.
VARYING = re.compile(rb"0x[0-9a-f]+|in [0-9.]+s|Thread-\d+|\(?pid[ =]\d+\)?|tmp\w+")


def outcome(worker: SandboxWorker, program: str, language: str) -> tuple[object, ...]:
    error = worker.compile(program, language=language)
    if error is not None:
        return ("does not compile", error)
    (report,) = worker.run(SUITE, [0], limits=lambda _: LIMITS, probes=False)
    return report["exit"], VARYING.sub(b"_", report["output"]), VARYING.sub(b"_", str(report["errors"]).encode())


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
    assert outcome(worker, program, "python3") == outcome(worker, program, "python3_fresh"), program
