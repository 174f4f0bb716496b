"""Limits of wall time on a core that others keep busy, with clocks and processes that stand still."""

import dataclasses

import pytest

from sandbox.inside import clocks, containment, groups

LIMITS = {"wall_s": 1.0, "cpu_s": 1.0, "memory_bytes": 1 << 30, "processes": 64}
LEADER, WORKER = 101, 102


@dataclasses.dataclass
class Standing:
    """A run that lasts, as the zygote, the meter and the kernel describe it."""

    used_s: float = 0.0
    process: int = 100
    is_isolated: bool = False

    def read_s(self):
        return self.used_s


@pytest.mark.parametrize(
    ("schedules", "ends_s"),
    [
        ({LEADER: (0.2, 0.0)}, 1.0),
        ({LEADER: (0.2, 0.7)}, 1.7),
        # The first process sleeps while another one works.
        ({LEADER: (0.0, 0.0), WORKER: (0.2, 0.7)}, 1.7),
        # Each waits for the other, which is nobody else's doing.
        ({LEADER: (0.1, 0.1), WORKER: (0.1, 0.1)}, 1.0),
        ({LEADER: (0.2, 90.0)}, 4.0),
    ],
)
def test_the_wait_of_any_process_of_a_run_is_given_back(monkeypatch, schedules, ends_s):
    now_s = [0.0]
    monkeypatch.setattr(containment.time, "monotonic", lambda: now_s[0])
    run = Standing()
    watch = containment.RunWatch(run, LIMITS, group=None, meter=run)
    run.used_s = 0.2
    monkeypatch.setattr(groups, "children_of", lambda _: [LEADER])
    monkeypatch.setattr(groups, "descendants", lambda _: [*schedules])
    monkeypatch.setattr(groups, "resident_bytes", lambda _: 0)
    monkeypatch.setattr(clocks, "schedule_of", lambda process: clocks.Schedule(*schedules[process]))
    now_s[0] = ends_s - 0.01
    assert watch.exceeded() == ""
    now_s[0] = ends_s + 0.01
    assert watch.exceeded() == "time"
