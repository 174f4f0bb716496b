"""Programs that attack the sandbox: each is contained, gets its verdict, and leaves the next run unaffected.

OPTIMRL_TEST_BACKEND names other walls to be attacked, such as `docker?engine=unix:///run/podman/podman.sock`.
"""

import os

import pytest

from sandbox import client
from sandbox.protocol import RunRequest, Verdict
from tests.sandbox.engine import require_docker
from tests.sandbox.hostile import CLEAN, HOSTILE, SUITE

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def sandbox():
    require_docker()
    with client.connect(os.environ.get("OPTIMRL_TEST_BACKEND", "docker"), workers=1) as connected:
        connected.upload(SUITE)
        yield connected


def test_there_are_many_attacks_of_every_kind():
    assert len({attack.name for attack in HOSTILE}) == len(HOSTILE) >= 140


@pytest.mark.parametrize("attack", HOSTILE, ids=lambda attack: attack.name)
def test_an_attack_is_contained_and_the_next_run_unaffected(sandbox, attack):
    lost = sandbox.service.counts["lost_workers"]
    (attacked,) = sandbox.run(attack.request).results
    assert attacked.verdict in attack.verdicts, attacked
    look = RunRequest(CLEAN, SUITE.sha256, tests=(0,), returns_output=True, seed=hash(attack.name))
    (after,) = sandbox.run(look).results
    assert after.verdict is Verdict.SUCCESS, after
    assert sandbox.service.counts["lost_workers"] == lost


def test_the_limits_asked_for_are_in_force(sandbox):
    sandbox.run(RunRequest("print(6)", SUITE.sha256, tests=(0,)))
    container = sandbox.service.workers[0]._channel.container
    container.reload()
    settings = container.attrs["HostConfig"]
    # Programs, the runner with its answers, and the largest input, whose copy lies in the container's memory.
    assert settings["Memory"] == settings["MemorySwap"] == (2 << 30) + (512 << 20) + (512 << 20)
    assert settings["PidsLimit"] == 512
    assert settings["NetworkMode"] == "none"
    assert settings["ReadonlyRootfs"]
    assert settings["CpusetCpus"] == "0"


def test_a_killed_container_is_replaced_and_the_run_answered_once(sandbox):
    sandbox.run(RunRequest("print(6)", SUITE.sha256, tests=(0,)))
    sandbox.service.workers[0]._channel.container.kill()
    (result,) = sandbox.run(RunRequest("print(2 * int(input()))", SUITE.sha256, tests=(0,))).results
    assert result.verdict is Verdict.SUCCESS
