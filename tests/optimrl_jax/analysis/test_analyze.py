"""Planted records come out as the numbers that were planted, on a page with every section."""

import json
import re
import types

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from optimrl_jax import analyze
from optimrl_jax.analysis.score_sections import checkpoint_pairs
from optimrl_jax.analysis.timing import service_states
from optimrl_jax.evaluation import records
from optimrl_jax.jobs.errors import EXIT_USER_ERROR
from tests.optimrl_jax.analysis import planted, planted_journal


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """The page over planted records, a run with metrics, and a second launch of a recipe with two checkpoints."""
    root = tmp_path_factory.mktemp("analysis")
    records.write_evaluation(make(root / "one"), planted.evaluation())
    steps = {"early": 10, "late": 40}
    run = make(root / "runs" / "steps" / "grpo")
    metrics = [{"step": step, "reward": 0.1, "invalid_share": 0.25, "generate_s": 36.0} for step in range(1, 41)]
    for step in (20, 40):
        metrics[step - 1] |= {"held_out/pass_at_1_p100": step / 100, "held_out/pass_at_1_p30": 0.1}
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in metrics))
    planted_journal.write_journal(run)
    for seed, speed in enumerate((1.25, 3.5)):
        found = planted.evaluation(
            speeds={"early": 2.5, "late": speed}, steps=steps, name=f"s{seed}", recipe={"x": 1}, seed=seed
        )
        for policy in found.facts["policies"].values():
            policy["source"] = f"{run if seed == 0 else root / 'absent'}@{policy['step']}"
        records.write_evaluation(make(root / f"seed{seed}"), found)
    names = ",".join(str(root / name) for name in ("one", "seed0", "seed1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service_states, "load_records", lambda directory, split: [planted_journal.PROBLEM])
        assert analyze.main([f"--records={names}", f"--output={root / 'page'}", f"--runs={run}"]) == 0
    return root / "page"


def make(path):
    path.mkdir(parents=True)
    return path


def table(output, name, **where):
    rows = pq.read_table(output / f"{name}.parquet").to_pylist()
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def one(output, name, **where):
    (row,) = table(output, name, **where)
    return row


def test_scores_are_those_that_were_planted(output):
    """base: two of four problems lose half of their samples. fast, without the fault: 3 of 3 pass, or 1 of 3."""
    base, fast = 100 * (1 + 1 + 0.5 + 0.5) / 4, 100 * (1 + 1 + 1 / 3 + 1 / 3) / 4
    for tau, expected in (("p100", (base, fast)), ("p50", (base, fast)), ("p20", (0.0, 0.0))):
        found = [one(output, "scores", policy=name, score="pass@1", tau=tau)["percent"] for name in ("base", "fast")]
        assert found == pytest.approx(expected), tau
    profile = one(output, "profiles", policy="fast")
    assert [profile[f"p{tau}"] for tau in (30, 20)] == pytest.approx([fast, 0.0])
    assert one(output, "differences", policy="fast", score="pass@1", tau="p100")["points"] == pytest.approx(fast - base)


def test_faulted_samples_are_counted_and_take_no_part(output):
    assert one(output, "policies", policy="fast")["faulted"] == 4
    assert one(output, "policies", policy="base")["faulted"] == 0
    near = {row["policy"]: row["near_best"] for row in table(output, "near_best")}
    assert near["base"] > 0


def test_families_separate_and_agree_as_their_columns_do(output):
    """Length filters leave correctness: 75 for all but `fast`, which has 200/3. The rest is taken from the heatmap."""
    filtered = one(output, "discrimination", family="length_filter")
    assert (filtered["between_policies"], filtered["over_settings"]) == pytest.approx((75 - 200 / 3, 0))
    cells, means = table(output, "heatmap"), {}
    for row in table(output, "discrimination"):
        by_policy: dict[str, list[float]] = {}
        for cell in cells:
            if cell["family"] == row["family"]:
                by_policy.setdefault(cell["policy"], []).append(cell["percent"])
        columns = list(zip(*by_policy.values(), strict=True))
        between = sum(max(column) - min(column) for column in columns) / len(columns)
        over = sum(max(values) - min(values) for values in by_policy.values()) / len(by_policy)
        assert (row["between_policies"], row["over_settings"]) == pytest.approx((between, over))
        means[row["family"]] = [sum(values) / len(values) for values in by_policy.values()]
    for row in table(output, "agreement"):
        expected = stats.spearmanr(means[row["left"]], means[row["right"]]).statistic
        assert row["spearman"] == pytest.approx(expected), row
    unranked = one(output, "separation", tau="p100")
    assert (unranked["policy_spread"], unranked["scoring_drop"]) == pytest.approx((75 - 200 / 3, 0))


def test_a_burst_shows_in_returns_as_it_was_planted(output):
    """After the warm-up of 4 batches, 2 of 36 are a burst: a quarter settled, returns of -1 in place of 0.5."""
    row, share = one(output, "silent_and_bursty"), 2 / 36
    assert (row["service_only_mean"], row["service_only_min"]) == pytest.approx((100 - 75 * share, 25))
    assert (row["fallback_mean"], row["unresolved_mean"]) == pytest.approx((50 * share, 25 * share))
    assert (row["return_mean"], row["return_range"]) == pytest.approx((0.5 - 1.5 * share, 1.5))
    assert row["return_std"] == pytest.approx(1.5 * (share * (1 - share)) ** 0.5)
    assert row["correct_mean"] == pytest.approx(100 * (1 - share))


def test_the_planted_drift_is_found(output):
    for row in table(output, "drift"):
        assert (row["alpha"], row["beta_s"]) == pytest.approx((planted.ALPHA, planted.BETA_S), rel=1e-3)
        assert row["spearman"] == pytest.approx(1.0)


def test_the_faster_policy_wins_every_problem(output):
    for rate in ("WR_b", "WR_med"):
        row = one(output, "win_rates", policy="fast", rate=rate)
        assert (row["percent"], row["wins"], row["losses"], row["draws"], row["filtered"]) == (100.0, 4, 0, 0, 0)


def test_the_difficulty_effect_shows(output):
    assert one(output, "difficulty", policy="base", difficulty="1")["p100"] == 100.0
    assert one(output, "difficulty", policy="base", difficulty="3")["p100"] == 50.0
    assert one(output, "lengths", policy="base", difficulty=3)["median_tokens"] == 30.0
    assert one(output, "lengths", policy="base", difficulty=3)["cut_share"] == 0.5


def test_nobody_beats_the_best_human_and_the_distance_is_known(output):
    row = one(output, "best_human", policy="fast", by="all")
    assert (row["compared"], row["wins"]) == (4, 0)
    ratios = [float(planted.drifted(1.25 * unit) / planted.drifted(unit)) for unit in planted.UNITS_S]
    assert row["median_ratio"] == pytest.approx(np.median(ratios), rel=1e-4)


def test_limits_count_programs_whose_every_test_is_under_them(output):
    """base takes 85, 122.5, 197.5 and 310 ms on the four problems; the third, of difficulty 3, counts half."""
    row = one(output, "time_limits", policy="base")
    assert row["10_s"] == 75.0
    assert row["0.2_s"] == pytest.approx(100 * (1 + 1 + 0.5) / 4)
    assert row["0.1_s"] == pytest.approx(25.0)


def test_two_launches_of_a_recipe_give_the_training_interval(output):
    """late scores 75 % at p50 in one launch and 0 % in the other: deviation 0.53, Student's quantile 12.7."""
    row = one(output, "scores", policy="seed0:late", score="pass@1", tau="p50")
    deviation = 75 / np.sqrt(2)
    assert row["training_half_width"] == pytest.approx(12.7062 * deviation, rel=1e-4)


def test_checkpoints_of_a_run_stand_over_their_steps(output):
    rows = [row for row in table(output, "dynamics") if row["run"] == "steps/grpo"]
    assert [row["step"] for row in rows] == [10, 40]
    assert [row["wall_hours"] for row in rows] == pytest.approx([0.1, 0.4])
    assert one(output, "training_runs", run="steps/grpo")["invalid_share"] == 0.25


def test_evaluations_during_training_stand_beside_what_the_run_logged(output):
    rows = table(output, "held_out", run="steps/grpo")
    assert [(row["step"], row["pass_at_1_p100"], row["pass_at_1_p30"]) for row in rows] == [(20, 20, 10), (40, 40, 10)]
    assert (output / "held_out.png").exists()


def test_sweeps_follow_the_calibration_and_leave_correctness_alone(output):
    correct = {row["percent"] for row in table(output, "calibrations", tau="p100", policy="base")}
    assert correct == {75.0}
    slow = [row["percent"] for row in table(output, "calibrations", sweep="alpha", tau="p50", policy="base")]
    assert slow == sorted(slow, reverse=True)


def test_both_scalars_and_the_metrics_are_those_of_the_planted_places(output):
    """base stands behind two of four references on every test: both scalars are 0.5, mean percentiles 50."""
    row = one(output, "scalarizations", policy="base")
    assert (row["samples"], row["mean_difference"]) == (12, 0.0)
    mean = one(output, "metrics", metric="mean_percentile")
    assert (mean["within_problem_std"], mean["undefined_share"]) == (0.0, 0.0)


def test_other_papers_definitions_score_the_planted_places(output):
    """base lies half way between the slowest and the fastest reference, fast at 2.75 of 3 parts; wrong ones score 0."""
    base, fast = (1 + 1 + 0.5 + 0.5) / 4, (1 + 1 + 1 / 3 + 1 / 3) / 4
    expected = {
        "beyond": (base / 2, fast * 2.75 / 3),
        "dps": (0.5, 0.75),
        "optimized": (0.0, fast),
        "efficient@1": (0.0, 0.0),
    }
    for name, scores in expected.items():
        row = one(output, "other_definitions", definition=name)
        assert (row["base"], row["fast"]) == pytest.approx(scores), name
    ratio = [float(planted.drifted(2.5 * unit) / planted.drifted(1.25 * unit)) for unit in planted.UNITS_S]
    row = one(output, "other_definitions", definition="speedup")
    right = [ratio[0], ratio[1], *(1 + (one - 1) / 3 for one in ratio[2:])]
    assert row["fast"] == pytest.approx(np.mean(right), rel=1e-5)
    assert row["base"] == pytest.approx(1.0, rel=1e-5)
    assert one(output, "definitions_agreement", definition="dps")["spearman"] == pytest.approx(1.0)


def test_stored_rollouts_are_replayed_under_every_state(output):
    healthy = one(output, "service_states", state="healthy")
    assert (healthy["shift"], healthy["sign_flips"], healthy["update_cosine"]) == (0.0, 0.0, pytest.approx(1.0))
    assert one(output, "service_states", state="slow_50")["shift"] < -0.1


def test_pairs_to_read_name_both_programs(output):
    row = table(output, "cases", policy="fast")[0]
    assert row["baseline_program"].startswith("# base")
    assert row["policy_program"].startswith("# fast")
    assert row["speedup"] > 1.5


def test_the_page_holds_every_section_and_needs_no_other_file(output):
    page = (output / "index.html").read_text()
    assert page.count("<h2") == len(analyze.SECTIONS)
    assert "Nothing to show" not in page
    assert not re.findall(r"(?:src|href)='(?!data:|#)", page)
    for name in ("pass_at_1", "profiles", "heatmap", "sweep_alpha", "difficulty_radar", "win_rates", "best_human"):
        assert (output / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_mistake_is_one_line(tmp_path, capsys):
    assert analyze.main([f"--records={tmp_path}", f"--output={tmp_path / 'page'}"]) == EXIT_USER_ERROR
    assert "expected stored evaluation records" in capsys.readouterr().err


def test_a_checkpoint_that_two_passes_timed_is_no_pair_of_checkpoints():
    sources = (("sft@320", 320), ("sft@320", 320), ("grpo@6", 6), ("grpo@12", 12))
    policies = [types.SimpleNamespace(facts={"source": source, "step": step}) for source, step in sources]
    assert checkpoint_pairs(types.SimpleNamespace(policies=policies)) == [(policies[2], policies[3])]
