"""What rollouts earn in a run: every composition, and timing noise injected by the settings."""

import dataclasses

import numpy as np
import pytest

from optimrl_jax import environment, rewards, settings
from optimrl_jax.arrays import AffineMap, Status, TestKind
from optimrl_jax.environment.families import FAMILIES
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.rollout import rewarder
from optimrl_jax.rollout.execution import CandidateRun
from tests.optimrl_jax import records

SUCCESS, TIMEOUT, FAILURE, NOT_RUN = Status.SUCCESS, Status.TIMEOUT, Status.FAILURE, Status.NOT_RUN
RECORDS = [records.record(name=name) for name in ("double", "triple")]
# References take 10 to 40 ms: between the first and the second, and slower than all.
RUNS = [CandidateRun(np.zeros(5, np.int8), np.full(5, seconds, np.float32)) for seconds in (0.015, 0.05)]


def judge(*, noise=None, reward=None, **environment):
    sections = {"environment": {"family": "qp_ranked", **environment}, "noise": noise or {}, "reward": reward or {}}
    return rewarder.Rewarder(RECORDS, freeze(settings.Settings, sections))


def earned(found, *, batch=0):
    return found(0, RUNS, stream=0, batch=batch)


def test_naive_compositions_can_be_trained_on():
    found = earned(judge(reward={"composition": "naive_optimization_linear"}))
    assert found.reward.tolist() == pytest.approx([1 - 0.0015, 1 - 0.005])


def test_a_healthy_service_leaves_rewards_as_measured():
    found = earned(judge())
    assert (found.reward.tolist(), found.is_fast.tolist()) == ([1.0, 0.0], [True, False])


def test_injected_noise_moves_rewards_and_repeats_itself():
    noisy = judge(noise={"service": "added_5_50_ms"}, reward={"composition": "two_gate_graded"})
    rewards_of = [earned(noisy, batch=batch).reward[0] for batch in range(10)]
    assert max(rewards_of) < earned(judge(reward={"composition": "two_gate_graded"})).reward[0]
    assert len(set(rewards_of)) > 1
    assert [earned(noisy, batch=batch).reward[0] for batch in range(10)] == rewards_of


def test_bursts_hit_some_windows_of_batches_only():
    noisy = judge(noise={"service": "slow_50", "burst_share": 0.5, "burst_batches": 2}, threshold=0.25)
    runs = [CandidateRun(np.zeros(5, np.int8), np.full(5, 0.015, np.float32))] * 2
    fast = [bool(noisy(0, runs, stream=0, batch=batch).is_fast[0]) for batch in range(24)]
    assert fast[::2] == fast[1::2]
    assert 0 < sum(fast) < 24


def test_a_deviation_in_the_references_softens_the_gate():
    uncertain = [dataclasses.replace(one, std_s=one.duration_s * np.float32(0.3)) for one in RECORDS]
    values = {"environment": {"family": "qp_ranked", "noise_draws": 64}}
    found = rewarder.Rewarder(uncertain, freeze(settings.Settings, values))(0, RUNS, stream=0, batch=0)
    assert 0 < found.reward[0] < 1
    assert found.is_fast.tolist() == [True, False]


def test_an_unknown_service_is_refused():
    with pytest.raises(ValueError, match=r"noise\.service = 'tired': expected one of healthy"):
        judge(noise={"service": "tired"})


def test_a_drifted_service_is_judged_against_references_as_they_read_there():
    # References of 10 to 40 ms take 25 to 85 ms there: a run of 50 ms stands where one of 22.5 ms stood before.
    drifted = dataclasses.replace(RUNS[1], drift=AffineMap(2.0, 0.005))
    before = dataclasses.replace(RUNS[1], duration_s=np.full(5, 0.0225, np.float32))
    graded = judge(reward={"composition": "two_gate_graded"})
    there, here, _ = graded(0, [drifted, before, RUNS[1]], stream=0, batch=0).reward
    assert there == pytest.approx(here)
    assert len({*graded(0, [drifted, RUNS[1]], stream=0, batch=0).reward.tolist()}) == 2


@pytest.mark.parametrize("composition", ["two_gate_graded", "multitask_graded"])
def test_a_replay_judges_each_run_under_its_own_drift(composition):
    # Half as slow again and 2 ms, on top of a calibration of the settings.
    graded = judge(reward={"composition": composition}, alpha=0.9, beta_s=0.001)
    runs = [dataclasses.replace(run, drift=drift) for run in RUNS for drift in (AffineMap(1.5, 0.002), AffineMap())]
    expected = graded(0, runs, stream=1, batch=0)
    found = graded.replay(0, runs, state=environment.SERVICE_STATES["healthy"], draws=2, batch=0)
    assert found.reward.tolist() == [pytest.approx(expected.reward.tolist())] * 2
    assert found.is_valid.tolist() == [[True] * 4] * 2
    assert len(set(expected.reward.tolist())) == 4


def test_what_reads_no_reference_earns_the_same_under_any_drift():
    drifted = [dataclasses.replace(run, drift=AffineMap(2.0, 0.005)) for run in RUNS]
    reading = set()
    for name in FAMILIES:
        found = judge(family=name, limit=0.04, reward={"composition": "optimization_only_graded"})
        if found.reads_references:
            reading.add(name)
        else:
            assert found(0, drifted, stream=0, batch=0).reward.tolist() == earned(found).reward.tolist(), name
    assert reading == {
        "absolute_filter", "relative_filter", "relative_timeout", "ranked_timeout", "qar_ranked", "qp_ranked"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("composition", "expected"),
    [("two_gate_graded", False), ("naive_optimization_linear", False), ("gated_speedup", True)],
)
def test_a_speedup_reads_references_in_every_family(composition, expected):
    assert judge(family="mc_mo", reward={"composition": composition}).reads_references == expected


def test_an_environment_of_the_users_own_is_taken_to_read_references(tmp_path):
    (tmp_path / "own.py").write_text(
        "from optimrl_jax import environment\n"
        "def plain(*problem): return environment.judge(environment.build('mc_mo'), *problem)\n"
    )
    assert judge(family=f"{tmp_path / 'own.py'}:plain").reads_references


def stopped(runs, kinds, executed):
    """What the sandbox leaves of runs that end at their first failure; a slow optimization test is none."""
    rows = []
    for run in runs:
        status = np.where(np.isin(kinds, list(executed)), run.status, NOT_RUN)
        fails = (status == FAILURE) | ((status == TIMEOUT) & (kinds != TestKind.OPTIMIZATION))
        after = np.cumsum(fails) - fails > 0
        rows.append(CandidateRun(np.where(after, NOT_RUN, status).astype(np.int8), run.duration_s))
    return rows


@pytest.mark.parametrize("composition", rewards.COMPOSITIONS)
def test_what_stops_early_earns_what_it_would_have_earned(composition):
    generator = np.random.default_rng(7)
    status = generator.choice([SUCCESS, TIMEOUT, FAILURE], p=[0.7, 0.15, 0.15], size=(64, 5)).astype(np.int8)
    durations_s = generator.uniform(0.005, 0.05, size=(64, 5)).astype(np.float32)
    runs = [CandidateRun(*row) for row in zip(status, durations_s, strict=True)]
    stopping = []
    for name in FAMILIES:
        found = judge(reward={"composition": composition}, family=name)
        if found.stops_early:
            stopping.append(name)
            whole = found(0, runs, stream=0, batch=0)
            short = found(0, stopped(runs, RECORDS[0].test_kind, found.kinds), stream=0, batch=0)
            assert short.reward.tolist() == whole.reward.tolist(), name
            assert short.is_correct.tolist() == whole.is_correct.tolist(), name
    gated = {"rlvr", "mc", "mc_tloc", "mc_mo", "absolute_timeout", "qar_ranked", "qp_ranked"}
    expected = {"correctness_only": {"rlvr", "mc", "mc_tloc"}}
    is_gated = composition.startswith(("collapsed", "two_gate"))
    assert set(stopping) == expected.get(composition, gated if is_gated else set())
