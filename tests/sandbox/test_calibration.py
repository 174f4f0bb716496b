"""Calibration recovers the map that was imposed, judges it on unseen problems, and names what it was measured under."""

import json
from typing import ClassVar

import numpy as np
import pytest

from sandbox import calibrate
from sandbox.protocol import RunResult, TestResult, Verdict
from sandbox.timing import calibration
from sandbox.timing.calibration import DurationPairs


def pairs_of(function, *, noise: float = 0.0, seed: int = 0) -> DurationPairs:
    random = np.random.default_rng(seed)
    stored_s = random.uniform(0.02, 2.0, 60)
    fresh_s = function(stored_s) * (1 + noise * random.standard_normal(60))
    return DurationPairs(stored_s, fresh_s, np.arange(60) % 6)


MAPS = {
    "multiplicative": (lambda x: 1.3 * x, [1.3]),
    "power": (lambda x: 1.2 * x**0.8, [0.8, np.log(1.2)]),
    "affine": (lambda x: 0.7 * x + 0.05, [0.7, 0.05]),
    "polynomial": (lambda x: 0.1 * x**2 + 0.5 * x + 0.01, [0.1, 0.5, 0.01]),
}


@pytest.mark.parametrize("family", MAPS)
def test_each_family_recovers_its_own_map(family):
    function, coefficients = MAPS[family]
    fit = calibration.calibrate(pairs_of(function), measured_under={}).fits[family]
    np.testing.assert_allclose(fit.coefficients, coefficients, atol=1e-9)
    assert fit.unseen_r_squared == pytest.approx(1.0)


def test_a_left_out_problem_is_predicted_from_the_others_alone():
    pairs = DurationPairs(
        np.array([1.0, 2.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0, 6.0]), np.array(["a", "a", "b", "b"])
    )
    # Fitted on b, the factor is 3, on a it is 1: errors 2, 4, 2, 4 around fresh seconds of mean 3, so 1 - 40 / 14.
    found = calibration.cross_validated(pairs, "multiplicative")
    assert found == pytest.approx((1 - 40 / 14, np.sqrt(10)))


def test_unrelated_durations_have_no_r_squared_on_unseen_problems():
    random = np.random.default_rng(1)
    pairs = DurationPairs(random.uniform(size=60), random.uniform(size=60), np.arange(60) % 6)
    assert calibration.calibrate(pairs, measured_under={}).fits["affine"].unseen_r_squared < 0.1


def test_the_version_names_content_and_circumstances():
    pairs = pairs_of(MAPS["affine"][0])
    one, same = (calibration.calibrate(pairs, measured_under={"host": "a"}) for _ in range(2))
    other = calibration.calibrate(pairs, measured_under={"host": "b"})
    assert one.version == same.version != other.version


def test_too_few_problems_are_refused():
    pairs = DurationPairs(np.ones(5), np.ones(5), np.zeros(5))
    with pytest.raises(ValueError, match="of 1 problems"):
        calibration.calibrate(pairs, measured_under={})


def test_rank_correlation_gives_ties_their_mean_rank():
    assert calibration.rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert calibration.rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    # Ranks 0.5, 0.5, 2 against 0, 1, 2.
    assert calibration.rank_correlation([1, 1, 2], [1, 2, 3]) == pytest.approx(np.sqrt(3) / 2)
    assert calibration.rank_correlation([1, 1, 1], [1, 2, 3]) == 0.0


def test_intervals_over_problems_hold_the_map_in_95_of_100_campaigns():
    held = []
    for seed in range(100):
        random = np.random.default_rng(seed)
        problem = np.repeat(np.arange(30), 4)
        stored_s = random.uniform(0.02, 2.0, 120)
        # What is odd about a problem is odd about all its pairs.
        fresh_s = 0.7 * stored_s + 0.05 + 0.02 * random.standard_normal(30)[problem] * stored_s
        alpha, beta_s = calibration.affine_intervals(DurationPairs(stored_s, fresh_s, problem))
        held.append((alpha.low <= 0.7 <= alpha.high, beta_s.low <= 0.05 <= beta_s.high))
    assert (np.mean(held, axis=0) > 0.86).all()


def test_draws_are_least_squares_over_the_problems_drawn():
    pairs = pairs_of(MAPS["affine"][0], noise=0.1)
    problems = np.unique(pairs.problem)
    draws = calibration.affine_draws(pairs, problems=problems)
    counts = np.random.default_rng(0).multinomial(6, np.full(6, 1 / 6), calibration.DRAWS)
    weight = counts[7][np.searchsorted(problems, pairs.problem)]
    slow = np.polyfit(np.repeat(pairs.stored_s, weight), np.repeat(pairs.fresh_s, weight), 1)
    np.testing.assert_allclose(draws[7], slow)


def test_a_moved_map_is_told_from_noise():
    first, again = (pairs_of(MAPS["affine"][0], noise=0.02, seed=seed) for seed in (0, 1))
    moved = again._replace(fresh_s=1.2 * again.fresh_s)
    assert not calibration.movement(first, again).is_beyond_noise
    found = calibration.movement(first, moved)
    assert found.is_beyond_noise
    assert found.alpha_change.low < 0.14 < found.alpha_change.high
    with pytest.raises(ValueError, match="1 problems in common"):
        calibration.movement(first, again.where(again.problem == 2))


def test_a_candidate_takes_its_place_among_the_others_by_hand():
    # One test, three programs: 2 s stored as 4 s stands last among stored seconds, second among fresh ones.
    pairs = DurationPairs(np.array([1.0, 4.0, 3.0]), np.array([1.0, 2.0, 3.0]), np.zeros(3), np.zeros(3), np.arange(3))
    np.testing.assert_allclose(calibration._mean_places(pairs, pairs.fresh_s), [0, 0.5, 1])
    # Candidates at 1, 2, 3 s among stored (4, 3), (1, 3), (1, 4).
    np.testing.assert_allclose(calibration._mean_places(pairs, pairs.stored_s), [0, 0.5, 0.5])
    assert calibration.leaderboard_spearman(pairs, pairs.fresh_s) == pytest.approx(1.0)


def test_calibration_restores_the_order_that_a_drift_has_spoilt():
    random = np.random.default_rng(0)
    test, program = (column.ravel() for column in np.meshgrid(np.arange(40), np.arange(12), indexing="ij"))
    problem = test // 10
    stored_s = random.uniform(0.05, 1.0, 480)
    fresh_s = 0.63 * stored_s + 0.053
    pairs = DurationPairs(stored_s, fresh_s, problem, test, program + 12 * problem)
    before = calibration.leaderboard_spearman(pairs, stored_s)
    found = calibration.calibrate(pairs, measured_under={})
    after = calibration.leaderboard_spearman(pairs, found.alpha * stored_s + found.beta)
    assert before < 0.95 < 0.999 < after


def test_programs_without_company_have_no_order():
    pairs = DurationPairs(np.ones(3), np.ones(3), np.zeros(3), np.arange(3), np.arange(3))
    assert calibration.leaderboard_spearman(pairs, pairs.stored_s) == 0.0


@pytest.fixture
def campaign(tmp_path):
    program = "n = int(input())\nfor _ in range(n):\n    pass\n"
    rows = [
        {
            "problem": p,
            "program": program,
            "inputs": [f"{n * p}\n" for n in (10**5, 10**6)],
            "stored_s": [0.01 * p, 0.1 * p],
        }
        for p in (1, 2, 3)
    ]
    path = tmp_path / "campaign.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_campaign_writes_what_it_found_and_compares_itself(tmp_path, campaign):
    first, second = tmp_path / "first", tmp_path / "second"
    common = [f"--campaign={campaign}", "--address=local", "--repeats=2"]
    assert calibrate.main([*common, f"--output={first}"]) == 0
    assert calibrate.main([*common, f"--output={second}", f"--compare={first}"]) == 0
    summary = json.loads((second / "summary.json").read_text())
    assert (summary["pairs"], summary["problems"], summary["left_out"]) == (6, 3, 0)
    assert summary["alpha_interval"][0] <= summary["alpha"] <= summary["alpha_interval"][1]
    compared = summary["compared"]
    assert compared["old"] == json.loads((first / "summary.json").read_text())["version"]
    assert compared["alpha_change_interval"][0] <= compared["alpha_change_interval"][1]
    for name in ("calibration.png", "residuals.png", "comparison.png"):
        assert (second / name).stat().st_size > 0
    assert not list(second.glob("unfinished*"))


def test_seconds_of_a_degraded_service_are_left_out(campaign):
    class Degraded:
        measured_under: ClassVar = {"host": "h"}

        def upload(self, suite):
            return suite.sha256

        def run_many(self, requests, *, on_result):
            rows = (TestResult(0, Verdict.SUCCESS, 0.1), TestResult(1, Verdict.SUCCESS, 0.2))
            states = [{"degraded": "burst"}, {}, {}]
            return [RunResult(r.sha256, rows, state) for r, state in zip(requests, states, strict=True)]

    found = calibrate.run_campaign(Degraded(), calibrate.read_entries(campaign), repeats=1, limit_s=1.0)
    assert (found.left_out, sorted(set(found.pairs.problem))) == (2, ["2", "3"])


BROKEN = ["", "{", "[]", '{"problem": 1}', '{"problem": 1, "program": "", "inputs": 3, "stored_s": 4}']


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_campaign_is_one_line_and_exit_code_2(tmp_path, capsys, text):
    path = tmp_path / "campaign.jsonl"
    path.write_text(text)
    assert calibrate.main([f"--campaign={path}", f"--output={tmp_path / 'o'}", "--address=local"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_only_an_earlier_campaign_can_be_compared_with(tmp_path, campaign, capsys, text):
    path = tmp_path / "calibration.json"
    path.write_text(text)
    path.with_name("pairs.jsonl").write_text("{}")
    arguments = [f"--campaign={campaign}", f"--output={tmp_path / 'o'}", "--address=local", f"--compare={path}"]
    assert calibrate.main(arguments) == 2
    assert "expected the results of an earlier campaign" in capsys.readouterr().err
