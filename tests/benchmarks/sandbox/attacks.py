"""Edge: programs that hide work, that pass something on, and that attack what runs them."""

import sys

from sandbox import client
from sandbox.protocol import Limits, RunRequest, Verdict
from tests.sandbox import channels, hiders, hostile

# Long enough for a helper that has to share its core with whatever else the machine does.
LIMITS = Limits(wall_s=30.0, memory_bytes=256 << 20, processes=8)


def least_charged_share(sandbox: client.Client) -> float:
    """Reported seconds over the processor seconds really used, for the program of HIDERS that hides most."""
    sandbox.upload(channels.SUITE)
    shares = []
    for program in hiders.HIDERS:
        (found,) = sandbox.run(RunRequest(program, channels.SUITE.sha256, limits=LIMITS)).results
        is_right = found.verdict is Verdict.SUCCESS
        shares.append(min(found.wall_s, found.cpu_s) / hiders.WORK_S if is_right else 0.0)
    return min(shares)


def open_channels(sandbox: client.Client) -> list[str]:
    """The ways of CHANNELS by which a run learned something of an earlier one."""
    sandbox.upload(channels.SUITE)
    return [name for name in channels.CHANNELS if not channels.is_closed(sandbox, name)]


def faults_caused_by_programs(sandbox: client.Client) -> list[str]:
    """The hostile programs that became a fault, cost a worker, got a wrong verdict, or left something behind."""
    sandbox.upload(hostile.SUITE)
    found = []
    for attack in hostile.HOSTILE:
        lost = sandbox.service.counts["lost_workers"]
        (result,) = sandbox.run(attack.request).results
        # Under usual limits: a busy machine alone could make it exceed those of some attacks.
        look = RunRequest(hostile.CLEAN, hostile.SUITE.sha256, tests=(0,), seed=len(found))
        (after,) = sandbox.run(look).results
        is_contained = result.verdict in attack.verdicts and after.verdict is Verdict.SUCCESS
        if not is_contained or sandbox.service.counts["lost_workers"] > lost:
            print(f"{attack.name}: {result}, then {after}", file=sys.stderr, flush=True)
            found.append(attack.name)
    return found
