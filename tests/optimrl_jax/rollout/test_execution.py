"""Programs become statuses and seconds of the stored tests, through a real sandbox."""

import numpy as np
import pytest

from optimrl_jax.arrays import STATUS_OF_VERDICT, Status, TestKind
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.rollout import execution
from optimrl_jax.settings import SandboxSettings
from sandbox import protocol
from sandbox.service import fallback
from tests.optimrl_jax.records import record

ALL = frozenset(TestKind)
DOUBLE = "print(2 * int(input()))"
SETTINGS = SandboxSettings(limit_s=0.5)


@pytest.fixture(scope="module")
def executor(tmp_path_factory):
    store = str(tmp_path_factory.mktemp("store") / "executions.sqlite")
    with execution.connect_sandbox(SETTINGS, pass_store=store) as client:
        yield execution.Executor(client, SETTINGS)


def one(executor, program, **options):
    (run,) = executor.execute([(record(), program)], **({"kinds": ALL} | options))
    return run


def test_every_verdict_has_a_status():
    assert set(STATUS_OF_VERDICT) == set(protocol.Verdict)


def test_a_correct_program_succeeds_everywhere_in_stored_order(executor):
    run = one(executor, DOUBLE)
    assert run.status.tolist() == [Status.SUCCESS] * 5
    assert ((run.duration_s > 0) & (run.duration_s < 0.5)).all()


def test_only_the_kinds_asked_for_are_run(executor):
    run = one(executor, DOUBLE, kinds={TestKind.ADDED})
    assert run.status.tolist() == [Status.NOT_RUN, Status.SUCCESS, *[Status.NOT_RUN] * 3]
    assert run.duration_s.tolist()[2:] == [0, 0, 0]


def test_a_timeout_is_recorded_at_the_service_cap(executor):
    run = one(executor, "n = int(input())\nwhile n == 3: pass\nprint(2 * n)")
    assert run.status.tolist() == [0, 0, 0, Status.TIMEOUT, 0]
    assert run.duration_s[3] == protocol.SERVICE_CAP_S


def test_an_early_stop_leaves_the_rest_unrun(executor):
    run = one(executor, "n = int(input())\nprint(2 * n if n < 1 else 0)", stops_early=True)
    assert run.status.tolist() == [Status.SUCCESS, Status.FAILURE, *[Status.NOT_RUN] * 3]


def test_a_program_that_does_not_compile_fails_everywhere(executor):
    assert one(executor, "print(").status.tolist() == [Status.FAILURE] * 5


def test_equal_programs_share_one_measurement_and_order_is_kept(executor):
    attempts = [(record(), DOUBLE), (record(), "print(0)"), (record(), DOUBLE)]
    seen = []
    first, wrong, again = executor.execute(attempts, kinds=ALL, on_result=seen.append)
    np.testing.assert_array_equal(first.duration_s, again.duration_s)
    assert wrong.status.tolist() == [Status.SUCCESS, *[Status.FAILURE] * 4]
    assert seen == [1, 2, 3]


def test_a_deciding_percentile_becomes_seconds_of_each_test(tmp_path, monkeypatch):
    status = np.zeros((5, 4), np.int8)
    status[1], status[2, 1:] = Status.FAILURE, Status.FAILURE
    for changed, expected in (({}, (0.025, 0.5, 0.01, 0.025, 0.025)), ({"repeats": 1}, None)):
        settings = SandboxSettings(**({"limit_s": 0.5, "repeats": 2, "decision_percent": 50.0} | changed))
        with execution.connect_sandbox(settings, pass_store=str(tmp_path / "s")) as client:
            asked, run_many = [], client.run_many
            monkeypatch.setattr(client, "run_many", lambda r, a=asked, run=run_many, **o: a.extend(r) or run(r, **o))
            execution.Executor(client, settings).execute([(record(status=status), DOUBLE)], kinds=ALL)
        assert asked[0].decisions_s == (pytest.approx(expected) if expected else None)


def test_cpu_seconds_can_feed_rewards(tmp_path):
    settings = SandboxSettings(limit_s=1.0, duration="cpu")
    with execution.connect_sandbox(settings, pass_store=str(tmp_path / "s")) as client:
        run = one(execution.Executor(client, settings), f"import time\ntime.sleep(0.1)\n{DOUBLE}")
    assert (run.duration_s < 0.1).all()


def test_an_address_where_nothing_answers_is_one_clear_line(tmp_path):
    with pytest.raises(UserError, match=r"sandbox\.address = 'telnet': expected a sandbox that answers"):
        execution.connect_sandbox(SandboxSettings(address="telnet"), pass_store=str(tmp_path / "s"))


@pytest.mark.parametrize(("calibration", "expected"), [("fixed", (1.0, 0.0)), ("follow", (1.5, 0.25))])
def test_a_drift_of_the_service_goes_with_what_it_measured(tmp_path, caplog, calibration, expected):
    settings = SandboxSettings(limit_s=0.5, calibration=calibration)
    with execution.connect_sandbox(settings, pass_store=str(tmp_path / "s")) as client:
        drift = {"calibration": "drift-0", "slope": "1.5", "offset_s": "0.25"}
        client.service.measured_under |= drift | {"degraded": "drift"}
        run = one(execution.Executor(client, settings), DOUBLE)
    assert run.drift == expected
    assert "1 of 1 programs were timed while the sandbox was degraded" in caplog.text
    assert "drift-0: stored seconds now read as 1.500 * stored +0.2500 s" in caplog.text


def test_a_reference_that_is_timed_again_says_how_stored_seconds_read_now():
    timed = record()
    anchor = execution.anchor_of(timed)
    assert anchor == 0
    tests = np.array([Status.SUCCESS, Status.SUCCESS, Status.SUCCESS, Status.SUCCESS, Status.FAULT], np.int8)
    now_s = timed.duration_s[:, anchor] * np.array([9, 9, 1.25, 1.25, 9], np.float32)
    assert execution.drift_of(timed, anchor, execution.CandidateRun(tests, now_s)) == pytest.approx((1.25, 0.0))
    nothing = execution.CandidateRun(np.full(5, Status.NOT_RUN, np.int8), np.zeros(5, np.float32))
    assert execution.drift_of(timed, anchor, nothing) == (1.0, 0.0)


def test_the_anchor_lies_a_quarter_down_the_leaderboard_of_what_could_be_timed():
    seconds = np.tile(np.array([0.04, 0.01, 0.03, 0.02], np.float32), (5, 1))
    assert execution.anchor_of(record(duration_s=seconds)) == 1
    status = np.zeros((5, 4), np.int8)
    status[:, 1] = Status.FAILURE
    assert execution.anchor_of(record(duration_s=seconds, status=status)) == 3


def test_rollouts_are_judged_by_references_of_their_own_minute(tmp_path):
    settings, seen = SandboxSettings(limit_s=0.5, calibration="references"), []
    timed = record(duration_s=np.full((5, 4), 1e-4, np.float32))
    with execution.connect_sandbox(settings, pass_store=str(tmp_path / "s")) as client:
        attempts = [(timed, DOUBLE), (timed, "print(0)")]
        executor = execution.Executor(client, settings)
        runs = executor.execute(attempts, kinds=ALL, reads_references=True, on_result=seen.append)
    assert len(runs) == 2
    assert seen[-1] == 2
    assert runs[0].drift == runs[1].drift
    # An empty program takes longer than a tenth of a millisecond: stored seconds were those of a faster clock.
    assert runs[0].drift.slope > 1
    assert runs[0].drift.offset_s == 0


def test_no_reference_is_timed_where_stored_seconds_will_not_be_read(tmp_path, monkeypatch):
    settings, asked = SandboxSettings(limit_s=0.5, calibration="references"), []
    with execution.connect_sandbox(settings, pass_store=str(tmp_path / "s")) as client:
        run_many = client.run_many
        monkeypatch.setattr(client, "run_many", lambda found, **o: asked.append(len(found)) or run_many(found, **o))
        executor = execution.Executor(client, settings)
        alone = one(executor, DOUBLE)
        compared = one(executor, DOUBLE, reads_references=True)
    assert asked == [1, 2]
    assert (alone.drift == (1.0, 0.0), compared.drift == (1.0, 0.0)) == (True, False)


def test_a_burst_of_faults_is_said_with_the_rates(tmp_path, caplog):
    with execution.connect_sandbox(SETTINGS, pass_store=str(tmp_path / "s")) as client:
        client.service.windows = client.windows._replace(was_burst=True)
        client.service.counts.update(requests=3, unsettled=1)
        one(execution.Executor(client, SETTINGS), DOUBLE)
    assert "service_only 75.00%, fallback 0.00%, unresolved 25.00%" in caplog.text


def test_settings_offer_what_the_fallback_knows_and_pass_it_on(monkeypatch):
    handed = {}
    monkeypatch.setattr(execution.sandbox_client, "connect", lambda *_, **options: handed.update(options))
    fields = {
        "correctness": "fallback_correctness",
        "optimization": "fallback_optimization",
        "quarantine": "quarantine",
        "backend": "fallback_backend",
    }
    for field, choices in fallback.CHOICES.items():
        for choice in choices:
            execution.connect_sandbox(
                freeze(SandboxSettings, {fields[field]: choice, "fallback_retries": 3}), pass_store="s"
            )
            assert (getattr(handed["fallback_policy"], field), handed["fallback_policy"].retries) == (choice, 3)
        with pytest.raises(SettingsError, match=fields[field]):
            freeze(SandboxSettings, {fields[field]: "other"})
    assert handed["fallback_policy"].backend == "docker"
    assert sandbox_defaults() == fallback.FallbackPolicy()


def sandbox_defaults() -> fallback.FallbackPolicy:
    """The policy of a configuration that says nothing of it."""
    default = SandboxSettings()
    return fallback.FallbackPolicy(
        default.fallback_correctness,
        default.fallback_optimization,
        default.fallback_retries,
        default.quarantine,
        default.fallback_backend,
    )
