"""What a run used is charged to it, whoever reaped it; and what it left behind, the next run cannot see."""

# Programs stand on one line each, and are full of braces.
# ruff: noqa: E501

import dataclasses

import pytest

from sandbox import client
from sandbox.protocol import Limits, RunRequest, Verdict
from tests.sandbox.channels import CHANNELS, SUITE, is_closed
from tests.sandbox.engine import require_docker
from tests.sandbox.hiders import HIDERS, WORK_S

pytestmark = pytest.mark.docker
# Long enough for processes that have to share their core with whatever else the machine does.
LIMITS = Limits(wall_s=30.0, memory_bytes=256 << 20, processes=8)
OVER = {
    "files_in_memory": (
        "import os\nfor _ in range(26):\n    f = os.memfd_create('x')\n    for _ in range(60): os.write(f, bytes(1 << 20))\nprint(6)",
        {Verdict.MEMORY_LIMIT},
    ),
    # Each holds its memory until the leader ends, which waits until all of them have it or are dead.
    "memory_of_daemons": (
        "import os\nr, w = os.pipe()\nend, leader = os.pipe()\nfor _ in range(5):\n    if os.fork() == 0:\n"
        "        if os.fork() == 0: os.close(leader); x = b'x' * (200 << 20); os.close(w); os.read(end, 1)\n"
        "        os._exit(0)\n    os.wait()\nos.close(w)\nos.read(r, 1)\nprint(6)",
        {Verdict.MEMORY_LIMIT},
    ),
    "number_of_daemons": (
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        os.fork() or time.sleep(5)\n        os._exit(0)\n    os.wait()",
        {Verdict.PROCESS_LIMIT},
    ),
    "empty_files": (
        "import os\nos.chdir('/dev/shm')\nn = 0\nwhile True: os.mknod(hex(n)); n += 1",
        {Verdict.OUTPUT_LIMIT, Verdict.MEMORY_LIMIT},
    ),
    "collisions_while_compiling": (
        "x = {" + ",".join(str(k * (2**61 - 1)) for k in range(1, 6000)) + "}\nprint(6)",
        {Verdict.SUCCESS},
    ),
    "blocks_while_compiling": (
        "".join(f"{'  ' * k}try: pass\n{'  ' * k}finally:\n" for k in range(19)) + "  " * 19 + "print(6)",
        {Verdict.COMPILE_ERROR},
    ),
}


@pytest.fixture(scope="module")
def sandbox():
    require_docker()
    with client.connect("docker", workers=1) as connected:
        connected.upload(SUITE)
        yield connected


def test_there_are_enough_ways_to_hide_work_and_to_leave_a_trace():
    assert len(set(HIDERS)) >= 25
    assert len(CHANNELS) >= 20


@pytest.mark.parametrize("index", range(len(HIDERS)))
def test_hidden_work_is_charged(sandbox, index):
    (found,) = sandbox.run(RunRequest(HIDERS[index], SUITE.sha256, limits=LIMITS)).results
    assert found.verdict is Verdict.SUCCESS, found
    assert found.wall_s >= 0.95 * WORK_S
    assert found.cpu_s >= 0.95 * WORK_S


@pytest.mark.parametrize("index", range(2))
def test_hidden_work_passes_no_limit(sandbox, index):
    limits = dataclasses.replace(LIMITS, wall_s=WORK_S / 4)
    (found,) = sandbox.run(RunRequest(HIDERS[index], SUITE.sha256, limits=limits)).results
    assert found.verdict is Verdict.TIME_LIMIT, found


@pytest.mark.parametrize("name", CHANNELS)
def test_a_run_learns_nothing_of_an_earlier_one(sandbox, name):
    assert is_closed(sandbox, name)


@pytest.mark.parametrize("name", OVER)
def test_what_a_program_does_to_its_limits_is_its_own_verdict_and_costs_no_worker(sandbox, name):
    program, verdicts = OVER[name]
    lost = sandbox.service.counts["lost_workers"]
    (found,) = sandbox.run(RunRequest(program, SUITE.sha256, limits=LIMITS)).results
    assert found.verdict in verdicts, found
    assert sandbox.service.counts["lost_workers"] == lost
