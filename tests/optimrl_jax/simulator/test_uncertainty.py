"""Bias and variance of confidence-aware rewards against closed forms, and the job that writes them."""

import json
import pathlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from optimrl_jax import simulate
from optimrl_jax.jobs import command_line
from optimrl_jax.simulator import uncertainty
from optimrl_jax.simulator.settings import SimulatorSettings

CONFIG = pathlib.Path(__file__).parents[3] / "configs" / "simulator.py"
# One shape for all tests of this module: what is compiled for one serves the others.
MEASUREMENTS, DRAWS = 100, 8
SMALL = [
    "--config.uncertainty.families=('qar_ranked',)",
    "--config.uncertainty.noises=(0.05,0.2)",
    "--config.uncertainty.repeats=(1,)",
    "--config.uncertainty.gaps=(0.05,)",
    "--config.uncertainty.spreads=(0.05,)",
    f"--config.uncertainty.measurements={MEASUREMENTS}",
    f"--config.uncertainty.draws={DRAWS}",
]


def simulated(row, path, *arguments):
    flags = [f"--config={CONFIG}:{row}", f"--workdir={path}", *arguments]
    return command_line.run_job(simulate.main, ["simulate", *flags], kind=SimulatorSettings)


def judged(clock, gaps, **fields):
    return uncertainty.judge_measurements(
        "qar_ranked", clock, np.array(gaps), measurements=MEASUREMENTS, seed=0, **fields
    )


def test_a_perfect_clock_puts_the_gate_where_it_stands():
    assert judged(uncertainty.Clock(0.0), [-0.01, 0.01]).gate[0].tolist() == [0.0, 1.0]
    # Behind six of twenty references, or seven.
    assert judged(uncertainty.Clock(0.0), [-0.01, 0.01]).credit[0] == pytest.approx([0.65, 0.7])


def test_one_error_for_all_runs_is_in_no_deviation_so_that_redrawing_changes_nothing():
    clock = uncertainty.Clock(0.1, repeats=3, kind="shared")
    plain, aware = (judged(clock, [-0.02, 0.02], noise_draws=n) for n in (0, DRAWS))
    assert 0.1 < plain.gate.mean() < 0.9
    np.testing.assert_allclose(aware.gate, plain.gate)


def test_redrawing_trades_variance_for_bias_near_the_gate():
    found = uncertainty.study([uncertainty.Clock(0.1)], gaps=[0.05], measurements=200, draws=16, seed=0)
    of = {e.way: e for e in found if (e.family, e.signal, e.gap) == ("qar_ranked", "gate", 0.05)}
    assert of["aware"].std < of["plain"].std
    assert abs(of["aware"].bias) > abs(of["plain"].bias)
    assert of["aware"].misordered < of["plain"].misordered
    assert of["plain"].efficiency == 1.0 < of["aware"].efficiency


def test_the_reliability_of_groups_is_found_where_runs_err_on_their_own():
    (own,) = uncertainty.reliability_study(
        [uncertainty.Clock(0.1)], spreads=[0.05], groups=MEASUREMENTS, draws=DRAWS, seed=0
    )
    assert own.estimated == pytest.approx(own.true, abs=0.12)
    assert 0.4 < own.true < 0.9
    (spell,) = uncertainty.reliability_study(
        [uncertainty.Clock(0.1, kind="shared")], spreads=[0.05], groups=MEASUREMENTS, draws=DRAWS, seed=0
    )
    assert (spell.estimated, spell.true < 0.2) == (1.0, True)


def test_the_job_writes_tables_figures_and_a_summary_that_is_json(tmp_path, capsys):
    assert simulated("uncertainty", tmp_path, *SMALL) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names - {"job.lock"} == {
        "uncertainty.parquet", "reliability.parquet", "gates.png", "order.png", "reliability.png", "summary.json"
    }  # fmt: skip
    rows = pq.read_table(tmp_path / "uncertainty.parquet").to_pylist()
    assert len(rows) == 2 * 2 * 2 * 2 * 3
    summary = json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
    assert summary["study"] == "uncertainty"
    assert "gates under" in capsys.readouterr().out


def test_the_noise_study_has_a_command_too(tmp_path):
    assert simulated("noise", tmp_path, "--config.trials=20") == 0
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "noise_thresholds.png", "noise_tests.png", "noise_magnitudes.png"
    }  # fmt: skip


def test_a_mistake_names_the_setting(tmp_path, capsys):
    assert simulated("uncertainty", tmp_path, "--config.uncertainty.noises=(0.1,2.0)") == 2
    assert "uncertainty.noises = (0.1, 2.0): expected shares between 0 and 1" in capsys.readouterr().err
