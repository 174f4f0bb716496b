"""Calibration recovers the map that was imposed, judges it on unseen problems, and names what it was measured under."""

import json

import numpy as np
import pytest

from sandbox import calibrate, calibration
from sandbox.calibration import Pairs


def pairs_of(function, *, noise: float = 0.0, seed: int = 0) -> Pairs:
    random = np.random.default_rng(seed)
    stored_s = random.uniform(0.02, 2.0, 60)
    fresh_s = function(stored_s) * (1 + noise * random.standard_normal(60))
    return Pairs(stored_s, fresh_s, np.arange(60) % 6)


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
    pairs = Pairs(np.array([1.0, 2.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0, 6.0]), np.array(["a", "a", "b", "b"]))
    # Fitted on b, the factor is 3, on a it is 1: errors 2, 4, 2, 4 around fresh seconds of mean 3, so 1 - 40 / 14.
    found = calibration.cross_validated(pairs, "multiplicative")
    assert found == pytest.approx((1 - 40 / 14, np.sqrt(10)))


def test_unrelated_durations_have_no_r_squared_on_unseen_problems():
    random = np.random.default_rng(1)
    pairs = Pairs(random.uniform(size=60), random.uniform(size=60), np.arange(60) % 6)
    assert calibration.calibrate(pairs, measured_under={}).fits["affine"].unseen_r_squared < 0.1


def test_the_version_names_content_and_circumstances():
    pairs = pairs_of(MAPS["affine"][0])
    one, same = (calibration.calibrate(pairs, measured_under={"host": "a"}) for _ in range(2))
    other = calibration.calibrate(pairs, measured_under={"host": "b"})
    assert one.version == same.version != other.version


def test_too_few_problems_are_refused():
    pairs = Pairs(np.ones(5), np.ones(5), np.zeros(5))
    with pytest.raises(ValueError, match="of 1 problems"):
        calibration.calibrate(pairs, measured_under={})


def test_rank_correlation_gives_ties_their_mean_rank():
    assert calibration.spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert calibration.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    # Ranks 0.5, 0.5, 2 against 0, 1, 2.
    assert calibration.spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(np.sqrt(3) / 2)
    assert calibration.spearman([1, 1, 1], [1, 2, 3]) == 0.0


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
    assert calibrate.main([*common, f"--output={second}", f"--compare={first / 'calibration.json'}"]) == 0
    summary = json.loads((second / "summary.json").read_text())
    assert summary["pairs"] == 6
    assert summary["compared"]["old"] == json.loads((first / "summary.json").read_text())["version"]
    assert (second / "calibration.png").stat().st_size > 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"problem": 1}'])
def test_a_broken_campaign_is_one_line_and_exit_code_2(tmp_path, capsys, text):
    path = tmp_path / "campaign.jsonl"
    path.write_text(text)
    assert calibrate.main([f"--campaign={path}", f"--output={tmp_path / 'o'}", "--address=local"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
