"""A study over planted records: its jobs in order, the pooled gains by hand, and every verdict as it was planted."""

import json

import numpy as np
import pytest
from scipy import stats

from configs.study import get_config
from optimrl_jax.environment import PRESETS
from optimrl_jax.evaluation import records
from optimrl_jax.jobs.errors import EXIT_USER_ERROR
from optimrl_jax.study import __main__ as job
from optimrl_jax.study.claims import CLAIMS, FAILS, HOLDS, OPEN, Claim, claim_verdict, paper_figures
from optimrl_jax.study.plan import ROWS, SFT, study_steps
from optimrl_jax.study.pooled import PooledGain, launch_spread, pooled_gain, stack_seeds
from tests.optimrl_jax.analysis import planted

MORE, LESS = Claim("", "a", "b", 30), Claim("", "a", "b", 30, 1, "less")
NO_LESS = Claim("", "a", "b", 100, 1, "no less")


def test_a_seed_is_whole_before_the_next_begins_and_its_rows_start_from_its_own_policy():
    steps = study_steps("s", config="c.py", rows=("mc", "per_test_top_30"), seeds=2, changes=("--config.a=1",))
    modules = [step.module.rpartition(".")[2] for step in steps]
    assert modules == ["build_dataset", *2 * ["sft", "train", "train", "evaluate"]]
    second = steps[5:]
    assert all({"--config.seed=1", "--config.a=1", "--config.data.directory=s/dataset"} <= set(s.flags) for s in second)
    assert second[1].flags[0] == "--config=c.py:mc"
    assert "--config.grpo.init_from=s/seed1/sft" in second[1].flags
    assert second[2].result == "s/seed1/per_test_top_30/summary.json"
    assert "(('sft', 's/seed1/sft'), ('mc', 's/seed1/mc'), ('per_test_top_30', 's/seed1/per_test_top_30'))" in str(
        second[3].flags
    )


def test_a_wrong_program_is_cut_short_where_it_runs_on_every_test():
    short = {row for row in ROWS if get_config(row).sandbox.limit_s < get_config().sandbox.limit_s}
    assert short == {row for row in ROWS if any(form in row for form in ("blend", "multitask", "optimization_only"))}


def test_rows_and_claims_name_rows_of_the_paper():
    assert set(ROWS) <= set(PRESETS)
    assert {claim.row for claim in CLAIMS} | {claim.rival for claim in CLAIMS} <= {SFT, *ROWS}
    ranked = next(
        claim for claim in CLAIMS if claim.rival == "mc_optimization_tests" and claim.row == "per_test_top_30"
    )
    assert paper_figures(ranked) == (19.1, 9.3)


def test_launches_and_problems_add_in_quadrature():
    """Two rows, two launches each, 0.1 and 0.3 from their means: s^2 = (2 x 0.01 + 2 x 0.09)/2 = 0.1."""
    gains = {"a": np.array([[0.1, 0.1], [0.3, 0.3]]), "b": np.array([[0.0, 0.0], [0.6, 0.6]])}
    spread = launch_spread(gains)
    assert spread.deviation == pytest.approx(np.sqrt(0.1))
    quantile = stats.t.ppf(0.975, 2)
    # Both problems gain alike, so that nothing comes from problems.
    found = pooled_gain(gains["a"], spread=spread)
    assert (found.mean, found.seeds) == (pytest.approx(20.0), 2)
    assert found.half_width == pytest.approx(100 * quantile * np.sqrt(0.1 / 2))
    between = pooled_gain(gains["a"] - gains["b"], spread=spread, launches=2)
    assert between.half_width == pytest.approx(100 * quantile * np.sqrt(0.1))
    # One row alone, whose problems differ: the bootstrap of two problems reaches both.
    assert launch_spread({"a": gains["a"][:1]}) is None
    alone = pooled_gain(np.array([[0.0, 1.0]]), spread=None)
    assert (alone.mean, alone.half_width) == (pytest.approx(50.0), pytest.approx(50.0))


def test_a_problem_without_a_score_in_one_seed_counts_in_the_others():
    found = pooled_gain(np.array([[0.2, np.nan], [0.4, 0.3]]), spread=None)
    assert found.mean == pytest.approx(30.0)
    with pytest.raises(ValueError, match="same problems"):
        stack_seeds([np.zeros(2), np.zeros(3)])


@pytest.mark.parametrize(
    ("claim", "mean", "half_width", "verdict"),
    [
        (MORE, 5, 4, HOLDS), (MORE, 5, 6, OPEN), (MORE, -5, 4, FAILS),
        (LESS, -5, 4, HOLDS), (LESS, 5, 4, FAILS), (LESS, 1, 4, OPEN),
        (NO_LESS, -3, 4, HOLDS), (NO_LESS, 9, 4, HOLDS), (NO_LESS, -5, 4, FAILS),
    ],
)  # fmt: skip
def test_a_claim_is_decided_by_its_whole_interval(claim, mean, half_width, verdict):
    assert claim_verdict(claim, PooledGain(mean, half_width, 3)) == verdict


@pytest.fixture
def study(tmp_path):
    """Two seeds: `per_test_top_30` passes at p30, its start and `mc_optimization_tests` do not."""
    for seed in range(2):
        speeds = {SFT: 2.5, "mc_optimization_tests": 2.5, "per_test_top_30": 1.25}
        directory = tmp_path / f"seed{seed}" / "evaluation"
        directory.mkdir(parents=True)
        records.write_evaluation(directory, planted.evaluation(speeds=speeds, name=f"s{seed}", recipe={}, seed=seed))
        (directory.parent / "summary.json").write_text("{}")
    return tmp_path


def test_the_report_says_what_was_planted(study, capsys):
    """Two of four problems lose half of their samples, so that p100 is 75 %; at p30 only the fast row has any."""
    assert job.main([f"--output={study}", "--seeds=2", "--report"]) == 0
    summary = json.loads((study / "summary.json").read_text())
    assert summary["seeds"] == 2
    assert summary["problems"] == 4
    cells = summary["scores"]["pass@1 p30"]
    assert cells[SFT]["percent"] == 0
    assert cells["per_test_top_30"]["by_seed"] == pytest.approx([75.0, 75.0])
    assert cells["per_test_top_30"]["gain"]["mean"] == pytest.approx(75.0)
    verdicts = {(c["row"], c["rival"], c["k"], c["tau"]): c["verdict"] for c in summary["claims"]}
    assert verdicts == {
        ("per_test_top_30", "mc_optimization_tests", 1, 30): HOLDS,
        ("per_test_top_30", SFT, 1, 30): HOLDS,
        ("per_test_top_30", SFT, 1, 100): HOLDS,
    }
    text = (study / "study.md").read_text()
    assert "| 19.1 against 9.3 | +75.0 [" in text
    assert "--report" in text
    assert (study / "study.png").stat().st_size > 5_000
    assert "3 claims over 2 seeds" in capsys.readouterr().err


def test_seeds_that_are_not_whole_are_left_out_and_none_is_refused(study, capsys):
    (study / "seed1" / "summary.json").unlink()
    assert job.main([f"--output={study}", "--seeds=2", "--report"]) == 0
    assert json.loads((study / "summary.json").read_text())["seeds"] == 1
    (study / "seed0" / "summary.json").unlink()
    assert job.main([f"--output={study}", "--seeds=2", "--report"]) == EXIT_USER_ERROR
    assert "expected at least one seed whose evaluation is finished" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--rows=per_test_top_3", "--rows = 'per_test_top_3': expected one of"),
        ("--seeds=0", "--seeds = 0: expected a positive number"),
        ("--sedes=3", "unexpected argument '--sedes=3'"),
    ],
)
def test_mistakes_are_one_line(flag, said, tmp_path, capsys):
    assert job.main([flag, f"--output={tmp_path}"]) == EXIT_USER_ERROR
    assert said in capsys.readouterr().err
