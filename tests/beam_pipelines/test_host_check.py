"""A busy host is named before a build, and a drift of its clock at the end."""

import dataclasses
import types

import numpy as np
import pytest

from beam_pipelines.runners import host_check
from optimrl_jax.arrays import Status, TestKind
from tests.beam_pipelines import planted


@pytest.mark.parametrize(("load", "is_busy"), [(0.2, 0.0), (3.9, 1.0)])
def test_a_host_is_busy_from_half_of_its_cores_on_and_the_build_says_so(monkeypatch, capsys, load, is_busy):
    monkeypatch.setattr(host_check.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(host_check.os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert host_check.warn_of_load() == {"cores": 4.0, "load_share": load / 4, "is_busy": is_busy}
    assert ("this host is busy (98% of its cores)" in capsys.readouterr().err) == bool(is_busy)


class SlowedSession:
    """Answers as a sandbox whose programs take a multiple of their stored seconds."""

    def __init__(self, slope):
        self.slope = slope

    def run(self, solutions, tests, *, checker, round_index):
        assert round_index == host_check.FINAL_ROUND
        seconds = self.slope * 0.25 * np.arange(1, len(solutions) + 1)[None]
        status = np.full(seconds.shape, Status.SUCCESS, np.int8)
        return types.SimpleNamespace(executions=types.SimpleNamespace(wall_s=seconds, status=status))


@pytest.mark.parametrize("slope", [1.0, 1.5])
def test_the_drift_is_what_references_take_over_what_is_stored(slope):
    short = planted.original("3\n1 2 3\n", "6\n")
    optimized = (short, dataclasses.replace(short, kind=int(TestKind.OPTIMIZATION)))
    finished = [planted.timed(name, tests=optimized) for name in ("a", "b")]
    found = host_check.measure_drift(finished, SlowedSession(slope))
    assert found["pairs"] == sum(min(4, len(problem.correct)) for problem in finished)
    assert found["drift"] == pytest.approx(slope)


def test_without_optimization_tests_nothing_is_compared():
    assert host_check.measure_drift([planted.timed("a")], SlowedSession(2.0)) == {"pairs": 0.0}
