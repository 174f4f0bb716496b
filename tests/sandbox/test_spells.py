"""A request that meets a slow core goes on at another one, within the same number of executions."""

from sandbox.backends import local
from sandbox.backends.worker import SandboxWorker
from sandbox.protocol import RunRequest, Suite
from sandbox.service import pool
from sandbox.timing.restlessness import SpeedHistory

SUITE = Suite(inputs=("1\n", "2\n", "3\n"), expected=("2\n", "4\n", "6\n"))
# A core that has been itself for a minute.
CALM = SpeedHistory().after([(n / 4, 0.001) for n in range(240)])
DOUBLE = "print(2 * int(input()))"


class Core(SandboxWorker):
    """A worker whose probes say what the test wants: seconds by the number of the run, the last one for ever."""

    probes_s: tuple[float, ...] = (0.001,)

    def run(self, *arguments, **options):
        for n, report in enumerate(super().run(*arguments, **options), start=self.run_count):
            yield {**report, "probe_s": self.probes_s[min(n, len(self.probes_s) - 1)]} if options["probes"] else report


def answered(monkeypatch, *probes_s: tuple[float, ...], program: str = DOUBLE, repeats: int):
    """The answer of a pool with such cores, its first one chosen first, and the pool, closed."""
    monkeypatch.setattr(local, "SandboxWorker", Core)
    workers = local.local_workers(len(probes_s))
    for worker, seconds in zip(workers, probes_s, strict=True):
        worker.probes_s = seconds
        worker.history = CALM
    monkeypatch.setattr(SpeedHistory, "after", lambda self, probes: self)
    found = pool.Pool(workers, measured_under={})
    try:
        found.upload(SUITE)
        return found.submit(RunRequest(program, SUITE.sha256, repeats=repeats)).result(), found
    finally:
        found.close()


def test_a_request_that_meets_a_spell_is_finished_by_another_worker(monkeypatch):
    answer, workers = answered(monkeypatch, (0.002,), (0.001,), repeats=4)
    assert workers.counts["moved"] == 1
    assert {result.worker for result in answer.results} == {workers.workers[1].name}
    # One run each in the spell, and two elsewhere, since those of the spell vouch for nothing.
    assert all(3 <= result.runs <= 6 for result in answer.results)
    assert sum(result.runs for result in answer.results) <= 4 * len(SUITE.inputs)


def test_where_nobody_else_is_free_or_the_core_only_flickers_it_stays(monkeypatch):
    for probes_s in [((0.002,),), ((0.00115,), (0.001,))]:
        answer, workers = answered(monkeypatch, *probes_s, repeats=2)
        assert workers.counts["moved"] == 0
        assert {result.worker for result in answer.results} == {workers.workers[0].name}


def test_a_failure_in_the_first_runs_stays_the_verdict(monkeypatch):
    program = "n = int(input())\nprint(2 * n if n != 2 else 5)"
    answer, workers = answered(monkeypatch, (0.002,), (0.001,), program=program, repeats=3)
    assert [str(result.verdict) for result in answer.results] == ["success", "wrong_output", "success"]
    assert workers.counts["moved"] == 1
