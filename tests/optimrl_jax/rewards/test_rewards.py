"""Rewards on the corners, on the paper's own figures, and within their range."""

import numpy as np
import pytest

from optimrl_jax import environment, rewards
from optimrl_jax.arrays import Execution, Outcome, References, Tests

CORNERS = {"wrong": (0, 0, 1, 0.0), "slow": (1, 1, 0, 1.0), "fast": (1, 1, 1, 0.0), "half": (1, 1, 0, 0.5)}


def outcome(*corners):
    c, c_strict, g, q = (np.asarray(column, np.float32) for column in zip(*corners, strict=True))
    return Outcome(c, c_strict, g, q, np.ones(len(corners), bool))


TABLE = [
    ("correctness_only", "linear", {"wrong": -1, "slow": 1, "fast": 1, "half": 1}),
    ("optimization_only_binary", "linear", {"wrong": 1, "slow": -1, "fast": 1, "half": -1}),
    ("optimization_only_graded", "linear", {"wrong": 1, "slow": -1, "fast": 1, "half": 0}),
    ("collapsed_binary", "linear", {"wrong": -1, "slow": -1, "fast": 1, "half": -1}),
    ("collapsed_graded", "linear", {"wrong": -1, "slow": -1, "fast": 1, "half": 0}),
    ("two_gate_binary", "linear", {"wrong": -1, "slow": 0, "fast": 1, "half": 0}),
    ("two_gate_graded", "linear", {"wrong": -1, "slow": 0, "fast": 1, "half": 0.5}),
    ("two_gate_graded", "range_1_2", {"wrong": -1, "slow": 0.5, "fast": 1, "half": 0.75}),
    ("two_gate_graded", "range_1_3", {"wrong": -1, "slow": 1 / 3, "fast": 1, "half": 2 / 3}),
    ("blend_binary", "linear", {"wrong": 0, "slow": 0, "fast": 1, "half": 0}),
    ("blend_graded", "linear", {"wrong": 0, "slow": 0, "fast": 1, "half": 0.5}),
]


@pytest.mark.parametrize(("composition", "quality_map", "expected"), TABLE)
def test_rewards_on_the_corners(composition, quality_map, expected):
    found = rewards.reward(outcome(*CORNERS.values()), composition, quality_map=quality_map)
    assert dict(zip(CORNERS, np.asarray(found).tolist(), strict=True)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("weight", "wrong", "slow"), [(2 / 3, -1 / 3, 1 / 3), (1 / 3, 1 / 3, -1 / 3)])
def test_blends_weigh_correctness_as_told(weight, wrong, slow):
    found = rewards.reward(outcome(CORNERS["wrong"], CORNERS["slow"]), "blend_binary", blend_weight=weight)
    assert np.asarray(found).tolist() == pytest.approx([wrong, slow], abs=1e-6)


def test_multitask_gives_both_streams():
    found = np.asarray(rewards.reward(outcome(CORNERS["slow"], CORNERS["wrong"]), "multitask_binary"))
    assert found.tolist() == [[1, -1], [-1, 1]]


@pytest.mark.parametrize("composition", rewards.COMPOSITIONS)
@pytest.mark.parametrize("quality_map", rewards.QUALITY_MAPS)
def test_every_reward_stays_in_its_range(composition, quality_map):
    draw = np.random.default_rng(0)
    c = draw.integers(0, 2, 500)
    c_strict = c * draw.integers(0, 2, 500)
    random = outcome(*zip(c, c_strict, draw.integers(0, 2, 500), draw.random(500), strict=True))
    found = np.asarray(rewards.reward(random, composition, quality_map=quality_map))
    assert np.abs(found).max() <= 1 + 1e-6


@pytest.mark.parametrize(
    ("q", "credit"), [(0.0, 1.0), (0.05, 0.9), (0.1, 0.9), (0.11, 0.8), (0.5, 0.5), (0.95, 0.0), (1.0, 0.0)]
)
def test_buckets_of_the_paper(q, credit):
    assert float(rewards.QUALITY_MAPS["bucket"](np.float32(q))) == pytest.approx(credit, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "worst", "middle"),
    [("bucket", 0, 0.5), ("linear", 0, 0.5), ("range_1_3", 1 / 3, 2 / 3), ("range_1_2", 0.5, 0.75)],
)
def test_passing_ranges_of_the_paper(name, worst, middle):
    quality = rewards.QUALITY_MAPS[name]
    found = [float(quality(np.float32(q))) for q in (1.0, 0.5, 0.0)]
    assert found == pytest.approx([worst, middle, 1.0], abs=1e-6)


NAIVE = [(1, 10.0, "linear", 0.0), (1, 1.0, "linear", 0.9), (0, 0.001, "linear", -0.0001), (1, 1.0, "log", 1 / 3)]


@pytest.mark.parametrize(("c", "mean_s", "duration_map", "expected"), NAIVE)
def test_naive_rewards_of_the_paper(c, mean_s, duration_map, expected):
    found = rewards.naive_reward(np.float32(c), np.float32(mean_s), duration_map=duration_map)
    assert float(found) == pytest.approx(expected, abs=1e-5)


def test_timeouts_and_missing_durations_count_as_the_limit():
    tests = Tests(kind=np.array([2, 2, 2, 0]), characters=np.zeros(4), mask=np.ones(4, bool))
    execution = Execution(np.array([[0, 1, 0, 0]]), np.array([[1.0, 3.0, 0.0, 9.0]], np.float32))
    found = rewards.mean_duration(tests, execution, kinds=frozenset({2}), limit_s=10.0)
    assert float(found[0]) == pytest.approx((1 + 10 + 10) / 3)
    assert float(rewards.mean_duration(tests, execution, kinds=frozenset({1}), limit_s=7.0)[0]) == 7.0


@pytest.mark.parametrize(
    ("options", "message"), [({"composition": "sum"}, "composition"), ({"quality_map": "x"}, "quality_map")]
)
def test_an_unknown_name_is_refused(options, message):
    with pytest.raises(ValueError, match=rf"reward\.{message} = "):
        rewards.reward(outcome(CORNERS["fast"]), **({"composition": "two_gate_binary"} | options))


NAIVE_CORNERS = [
    ("naive_base_linear", [0.9, -0.1]),
    ("naive_base_log", [1 / 3, -2 / 3]),
    ("naive_optimization_linear", [0.5, 0.0 - 0.5]),
    ("naive_optimization_log", [(1 - np.log10(5)) / 3, (1 - np.log10(5)) / 3 - 1]),
]


@pytest.mark.parametrize(("composition", "expected"), NAIVE_CORNERS)
def test_raw_seconds_are_added_to_correctness(composition, expected):
    """1 s on original tests, 5 s on optimization tests; the second program is wrong on an original test."""
    tests = Tests(np.array([0, 0, 2]), np.ones(3, np.int32), np.ones(3, bool))
    references = References(np.ones((3, 1), np.float32), np.zeros((3, 1), np.float32), np.ones((3, 1), bool))
    execution = Execution(np.array([[0, 0, 0], [0, 2, 0]]), np.array([[1, 1, 5], [1, 1, 5]], np.float32))
    found = rewards.judge_and_reward(environment.build("mc_mo"), tests, references, execution, composition=composition)
    assert np.asarray(found.reward).tolist() == pytest.approx(expected, abs=1e-5)


def test_a_probability_takes_the_place_of_a_gate():
    """A correct program that passes in three of four draws earns three quarters of the second gate."""
    likely = Outcome(*(np.array([value], np.float32) for value in (1, 1, 0.75, 0.2)), np.ones(1, bool))
    assert float(rewards.reward(likely, "two_gate_binary")[0]) == pytest.approx(0.75)


def test_an_unknown_naive_composition_is_refused():
    with pytest.raises(ValueError, match=r"reward\.composition = 'naive'.*naive_base_linear"):
        rewards.judge_and_reward(environment.build("mc"), None, None, None, composition="naive")
