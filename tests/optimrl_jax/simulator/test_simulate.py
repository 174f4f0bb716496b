"""The simulator job from its command line to its files, and its correlations with online runs."""

import contextlib
import json
import pathlib

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from optimrl_jax import simulate
from optimrl_jax.jobs import command_line
from optimrl_jax.jobs.errors import EXIT_USER_ERROR
from optimrl_jax.simulator import diagnostics, report
from optimrl_jax.simulator.configurations import STAGES, configurations
from optimrl_jax.simulator.settings import SimulatorSettings
from tests.optimrl_jax import records

CONFIG = f"--config={pathlib.Path(__file__).parents[3] / 'configs' / 'simulator.py'}:quick"
SMALL = [
    "--config.problems.problems=12",
    "--config.problems.tests=8",
    "--config.problems.references=9",
    "--config.schedule.steps=30",
    "--config.schedule.window=5",
]


def simulated(*arguments: str) -> int:
    return command_line.run_job(simulate.main, ["simulate", *arguments], kind=SimulatorSettings)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A finished job with a training run beside it; `printed.txt` has what it printed."""
    path = tmp_path_factory.mktemp("simulator")
    metrics = [{"step": step, "fast_share": step / 40} for step in range(1, 31)]
    (path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in metrics))
    beside = f"--config.training_runs=(('qp_ranked threshold=0.3','{path}'),)"
    with (path / "printed.txt").open("w") as file, contextlib.redirect_stdout(file):
        assert simulated(CONFIG, f"--workdir={path}", *SMALL, beside) == 0
    return path


def test_the_job_leaves_table_plots_and_summary(workdir):
    table = pq.read_table(workdir / "configurations.parquet")
    assert table.num_rows == 1578
    assert table.column("name").to_pylist() == [one.name for one in configurations()]
    assert np.isfinite(table.column("steepness").to_numpy()).all()
    assert len(table.column("curve")[0]) == 30
    names = {path.name for path in workdir.iterdir()}
    assert {"landscape.png", "curves.png"} | {f"heatmap_{family}.png" for family in STAGES} <= names
    summary = json.loads((workdir / "summary.json").read_text())
    assert summary["configurations"] == sum(summary["verdicts"].values()) == 1578
    assert summary["settings"]["schedule"]["window"] == 5
    assert set(summary["correlations"]["steepness"]) == {"p100", "p50", "p30", "p10"}


def test_the_best_configurations_are_usable_ones_in_order_of_rank(workdir):
    table = pq.read_table(workdir / "configurations.parquet").to_pylist()
    best = json.loads((workdir / "summary.json").read_text())["best"]
    usable = sorted((row for row in table if not row["degenerate"]), key=lambda row: row["rank"])
    assert best == [row["name"] for row in usable[:10]]


def test_the_same_seed_gives_the_same_table(workdir, tmp_path):
    assert simulated(CONFIG, f"--workdir={tmp_path}", *SMALL) == 0
    first, again = (pq.read_table(path / "configurations.parquet") for path in (workdir, tmp_path))
    assert first.column("curve").equals(again.column("curve"))


def test_a_prepared_dataset_is_swept_like_a_synthetic_one(tmp_path, monkeypatch):
    monkeypatch.setattr(simulate.dataset, "load_records", lambda *_, field: records.ragged(0, problems=5))
    chosen = ["--config.problems.source=dataset", "--config.problems.problems=0"]
    assert simulated(CONFIG, f"--workdir={tmp_path}", *SMALL[3:], *chosen) == 0
    assert json.loads((tmp_path / "summary.json").read_text())["problems"] == 5


def test_a_training_run_stands_beside_the_curve_of_its_environment(workdir):
    assert (workdir / "curves_beside_training.png").read_bytes().startswith(b"\x89PNG")


def test_runs_that_were_stopped_early_are_left_out_and_the_title_says_what_is_correlated(workdir):
    summary = json.loads((workdir / "summary.json").read_text())
    assert {cell[2] for cell in summary["correlations"]["steepness"].values()} == {17}
    printed = " ".join((workdir / "printed.txt").read_text().split())
    assert "of synthetic problems against the paper's online runs, which trained on other problems; n = 17" in printed
    assert len(report.read_scores(report.PAPER_SCORES)[0]) == 20


MISTAKES = [
    (["--config.problems.source=elsewhere"], "problems.source = 'elsewhere': expected one of"),
    (["--config.problems.problems=0"], "problems.problems = 0: expected a positive number"),
    (["--config.schedule.window=31"], "schedule.window = 31: expected at most schedule.steps = 30"),
    (["--config.schedule.band=2.0"], "schedule.band = 2.0: expected a share"),
    (["--config.problems.source=dataset", "--config.problems.directory=/absent"], "expected a directory"),
    (["--config.training_runs=(('qp_ranked','/absent'),)"], "training_runs = 'qp_ranked': expected an environment of"),
    (
        ["--config.training_runs=(('qp_ranked threshold=0.3','/absent'),)"],
        "training_runs = '/absent': expected the workdir of a GRPO run",
    ),
    (["--config.online_scores=/absent.csv"], "online_scores = '/absent.csv': expected a CSV"),
]


@pytest.mark.parametrize(("arguments", "names"), MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, names, capsys, tmp_path):
    assert simulated(CONFIG, f"--workdir={tmp_path}", *SMALL, *arguments) == EXIT_USER_ERROR
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert names in error


def test_an_online_run_outside_the_sweep_is_a_mistake(capsys, tmp_path):
    scores = tmp_path / "scores.csv"
    scores.write_text("label,configuration,p30\nmine,qp_ranked threshold=0.33,12.5\n")
    assert simulated(CONFIG, f"--workdir={tmp_path}", *SMALL, f"--config.online_scores={scores}") == 2
    assert "qp_ranked threshold=0.33" in capsys.readouterr().err


def test_the_papers_20_runs_are_points_of_the_sweep():
    labels, names, scores = report.read_scores(report.PAPER_SCORES)
    rows = diagnostics.configuration_rows(names, among=[one.name for one in configurations()])
    assert len(set(rows.tolist())) == len(set(labels)) == 20
    assert scores["p30"].max() == 19.1


def test_correlations_agree_with_scipy_and_drop_what_is_missing():
    draw = np.random.default_rng(0)
    metric, score = draw.random(12), draw.integers(0, 5, 12).astype(float)
    metric[3] = np.nan
    found = diagnostics.correlate({"steepness": metric}, {"p30": score, "flat": np.ones(12)})["steepness"]
    kept = np.arange(12) != 3
    expected = stats.spearmanr(metric[kept], score[kept])
    assert found["p30"] == pytest.approx((expected.statistic, expected.pvalue, 11))
    assert np.isnan(found["flat"].rho)
