"""Requests that are given up: the work ends with them, here, in containers and on servers."""

import asyncio
import time

import httpx
import pytest

from sandbox import client
from sandbox.protocol import Limits, RunRequest, Suite, Verdict, to_json
from tests.sandbox import servers
from tests.sandbox.engine import require_docker

SUITE = Suite(("",), ("",))
LONG = RunRequest("import time\ntime.sleep(60)", SUITE.sha256, limits=Limits(wall_s=60.0))


async def give_up(connected: client.Client, counts, *, requests: int) -> None:
    """Ask, wait until the work is under way, give up, and wait until nothing is queued any more."""
    tasks = [asyncio.ensure_future(connected.arun(LONG)) for _ in range(requests)]
    async with asyncio.timeout(30):
        while counts["queued"] < requests:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(error, asyncio.CancelledError) for error in found)
        while counts["queued"]:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("backend", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_cancelled_task_ends_its_work_and_the_worker_goes_on(backend):
    if backend == "docker":
        require_docker()
    with client.connect(backend, workers=1, reuse="never") as connected:
        connected.upload(SUITE)
        connected.run(RunRequest("", SUITE.sha256))
        asyncio.run(give_up(connected, connected.service.counts, requests=1))
        assert connected.service.counts["cancelled"] == 1
        (found,) = connected.run(RunRequest("", SUITE.sha256)).results
    assert found.verdict is Verdict.SUCCESS


def test_a_cancelled_task_ends_its_work_on_the_server():
    with servers.serving(token="t") as (url, workers), client.connect(url, workers=3, token="t") as connected:
        connected.upload(SUITE)
        # Two run and one waits: the server has two workers.
        asyncio.run(give_up(connected, workers.counts, requests=3))
        assert workers.counts["cancelled"] == 3
        assert connected.service.counts["unsettled"] == 0
        (found,) = connected.run(RunRequest("", SUITE.sha256)).results
    assert found.verdict is Verdict.SUCCESS


def test_a_run_is_cancelled_by_its_name_over_http():
    async def run_and_cancel(url: str) -> list[int]:
        async with httpx.AsyncClient(base_url=url) as http:
            await http.put(f"/v1/suites/{SUITE.sha256}", content=to_json(SUITE))
            run = asyncio.ensure_future(http.post("/v1/runs", content=to_json(LONG), headers={"Run-Name": "mine"}))
            codes = []
            while codes[-1:] != [204]:
                await asyncio.sleep(0.05)
                codes.append((await http.delete("/v1/runs/mine")).status_code)
            answer = await asyncio.wait_for(run, 30)
            again = await http.delete("/v1/runs/mine")
            return [codes[-1], answer.status_code, again.status_code]

    with servers.serving() as (url, _):
        began_s = time.monotonic()
        assert asyncio.run(run_and_cancel(url)) == [204, 503, 404]
        assert time.monotonic() - began_s < LONG.limits.wall_s / 2
