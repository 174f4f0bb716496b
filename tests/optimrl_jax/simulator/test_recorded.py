"""Stored rollouts on clocks of known noise: comparisons by hand, what knowledge of the clock buys, and the job."""

import json
import pathlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from optimrl_jax import simulate
from optimrl_jax.jobs import command_line
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.settings import Settings
from optimrl_jax.simulator import recorded, studies
from optimrl_jax.simulator.settings import SimulatorSettings
from tests.optimrl_jax.analysis import planted_journal

CONFIG = pathlib.Path(__file__).parents[3] / "configs" / "simulator.py"
RANKED = freeze(Settings, {"environment": {"family": "qar_ranked"}, "reward": {"composition": "two_gate_graded"}})


def groups(count=12):
    """Seconds of 15, 25, 35 and 45 ms on one test with references of 10, 20, 30 and 40 ms; nobody timed out."""
    batches = [batch for batch in range(1, count + 2) if batch != 10][:count]
    return [[planted_journal.rollout(batch, sample) for sample in range(4)] for batch in batches]


def compared(truth, rewards, *, problems=("a", "b")):
    """Effects of rewards of two groups of two rollouts, one and three tokens long."""
    rows = [[{"problem": name, "tokens": tokens} for tokens in (1, 3)] for name in problems]
    truth, rewards = ([np.array(one, np.float32) for one in part] for part in (truth, rewards))
    comparison = recorded.Comparison(rows, truth, seed=0)
    return comparison.effects_of(rewards, comparison.cosine(comparison.updates(truth)))


def test_comparisons_by_hand():
    """Advantages of (1, -1) weighed by tokens (1, 3) are (1.5, -1.5) around their mean of -0.5."""
    truth = [[[1, -1]], [[1, -1]]]
    same, other = compared(truth, truth), compared(truth, [[[-1, 1]], [[-1, 1]]])
    assert [same[name].value for name in ("cosine", "wrong_sign", "shift", "gain")] == pytest.approx([1, 0, 0, 0])
    assert [other[name].value for name in ("cosine", "wrong_sign", "shift", "gain")] == pytest.approx([-1, 1, 0, -2])
    # One group has lost its signal: half of its two signs count as wrong, and the other group still points there.
    half = compared(truth, [[[1, -1]], [[1, 1]]])
    assert half["cosine"].value == pytest.approx(1 / np.sqrt(2))
    assert half["wrong_sign"].value == pytest.approx(0.25)
    assert half["shift"].value == pytest.approx(0.5)
    assert half["cosine"].low <= half["cosine"].value <= half["cosine"].high
    # Where the truth has one signal in two groups, a false one beside it costs as much as a lost one.
    false = compared([[[1, -1]], [[1, 1]]], truth)
    assert false["cosine"].value == pytest.approx(1 / np.sqrt(2))
    assert false["wrong_sign"].value == 0
    assert compared([[[1, -1]], [[-1, -1]]], [[[1, -1]], [[-1, -1]]])["order"].value == pytest.approx(1)
    assert compared([[[1, 1]], [[-1, -1]]], [[[-1, -1]], [[1, 1]]])["order"].value == pytest.approx(-1)


def test_a_clock_without_noise_leaves_every_way_where_it_was_and_a_noisy_one_does_not():
    calm, noisy = 1e-4, 0.3
    found, first, last = recorded.study(
        groups(), [planted_journal.PROBLEM], RANKED, noises=[calm, noisy], draws=3, redraws=16
    )
    # A right program behind 1, 2, 3 or 4 of four references earns 0.75, 0.5, 0.25 or 0.
    assert first == last == pytest.approx((0.375, 0.375, 0.375))
    assert len(found) == 2 * len(recorded.KNOWLEDGE) * len(recorded.WAYS)
    of = {(one.knowledge, one.noise, one.way): one for one in found}
    for way in recorded.WAYS:
        assert of[recorded.KNOWN, calm, way].cosine.value == pytest.approx(1, abs=1e-3)
        assert of[recorded.KNOWN, calm, way].wrong_sign.value == 0
    plain = of[recorded.KNOWN, noisy, "plain"]
    assert plain.cosine.value < 0.99
    assert plain.wrong_sign.value > 0
    # Deviations of 0, as they are stored here, know nothing and change nothing.
    assert of[recorded.STORED, noisy, "redrawn"].cosine.value == pytest.approx(plain.cosine.value, abs=1e-6)
    assert of[recorded.KNOWN, noisy, "redrawn"].cosine.value != pytest.approx(plain.cosine.value, abs=1e-3)


def test_a_drift_that_the_run_knew_of_changes_nothing():
    """Everything takes twice as long, references as well."""
    drift = {"drift_slope": 2.0, "drift_offset_s": 0.0}
    drifted = [
        [row | drift | {"duration_s": [2 * second for second in row["duration_s"]]} for row in group]
        for group in groups()
    ]
    small = {"noises": [0.3], "draws": 1, "redraws": 4}
    steady, moved = (recorded.study(of, [planted_journal.PROBLEM], RANKED, **small) for of in (groups(), drifted))
    assert (moved.first, moved.last) == (steady.first, steady.last)
    assert [one.shift for one in moved.effects] == [one.shift for one in steady.effects]


def simulated(path, *arguments):
    flags = [f"--config={CONFIG}:recorded", f"--workdir={path}", "--config.recorded.noises=(0.2,)", *arguments]
    return command_line.run_job(simulate.main, ["simulate", *flags], kind=SimulatorSettings)


def test_the_job_writes_table_figure_and_summary(tmp_path, monkeypatch):
    planted_journal.write_journal(tmp_path / "run")
    monkeypatch.setattr(studies, "load_records", lambda directory, split: [planted_journal.PROBLEM])
    small = ("--config.recorded.draws=1", "--config.recorded.redraws=4", "--config.recorded.groups=8")
    assert simulated(tmp_path / "study", f"--config.recorded.run={tmp_path / 'run'}", *small) == 0
    table = pq.read_table(tmp_path / "study" / "recorded.parquet").to_pylist()
    assert {(row["knowledge"], row["way"]) for row in table} == {
        (knowledge, way) for knowledge in recorded.KNOWLEDGE for way in recorded.WAYS
    }
    assert (tmp_path / "study" / "recorded.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "study" / "summary.json").read_text())["groups"] == 8


def test_a_run_without_rollouts_is_refused_by_name(tmp_path, capsys):
    assert simulated(tmp_path / "study", f"--config.recorded.run={tmp_path / 'nothing'}") == 2
    assert "expected the workdir of a GRPO run that kept its rollouts" in capsys.readouterr().err
