"""Gates become probabilities where seconds are uncertain, and stay as they are where they are not."""

import math

import jax
import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.arrays import Execution, References, Status, Tests
from optimrl_jax.environment import confidence
from optimrl_jax.environment.calibration import calibrated

DRAWS = 400
TESTS = Tests(np.full(4, 2, np.int32), np.ones(4, np.int32), np.arange(4) < 1)


def judged(candidate_s, *, reference_s, std_s, family="qar_ranked", **numbers):
    """One candidate against one reference on one real test."""
    duration_s = np.where(np.arange(4) < 1, reference_s, 0.0).astype(np.float32)[:, None]
    references = References(duration_s, np.full((4, 1), std_s, np.float32), duration_s > 0)
    seconds = np.full((1, 4), candidate_s, np.float32)
    env = environment.build(family, noise_draws=DRAWS, **numbers)
    return jax.tree.map(lambda part: part[0], environment.judge(env, TESTS, references, Execution(
        np.zeros((1, 4), np.int32), seconds
    )))  # fmt: skip


@pytest.mark.parametrize(("candidate_s", "g"), [(0.9, 1.0), (1.1, 0.0)])
def test_without_deviations_the_outcome_is_the_plain_one(candidate_s, g):
    assert float(judged(candidate_s, reference_s=1.0, std_s=0.0).g) == g


def test_a_gate_is_the_probability_of_being_faster():
    """Both runs have a standard deviation of 10 %, so that the difference of 1.0 and 0.9 s has sqrt(0.1^2 + 0.09^2)."""
    found = judged(0.9, reference_s=1.0, std_s=0.1)
    expected = 0.5 * (1 + math.erf(0.1 / math.hypot(0.1, 0.09) / math.sqrt(2)))
    assert float(found.g) == pytest.approx(expected, abs=3 * 0.5 / math.sqrt(DRAWS))
    assert float(found.q) == pytest.approx(1 - float(found.g), abs=1e-6)


def test_timeouts_near_their_limit_are_softened_too():
    """A candidate right at its limit is late in half of the draws."""
    found = judged(0.5, reference_s=0.5, std_s=0.05, family="absolute_timeout", limit=0.5, tolerance=0.0)
    assert float(found.g) == pytest.approx(0.5, abs=3 * 0.5 / math.sqrt(DRAWS))


def test_correctness_and_validity_do_not_depend_on_draws():
    found = judged(0.9, reference_s=1.0, std_s=0.5)
    assert (float(found.c), float(found.c_strict), bool(found.is_valid)) == (1, 1, True)


def test_equal_programs_earn_equal_rewards_again_and_again():
    assert float(judged(0.95, reference_s=1.0, std_s=0.1).g) == float(judged(0.95, reference_s=1.0, std_s=0.1).g)


def test_recorded_timeouts_have_no_error():
    """A reference at the cap stays there: the candidate under it is always faster."""
    assert float(judged(9.0, reference_s=10.0, std_s=3.0).g) == 1.0


def test_the_coefficient_of_variation_leaves_out_timeouts_and_failures():
    references = References(
        np.array([[1.0, 3.0, 10.0, 2.0]], np.float32),
        np.array([[0.1, 0.3, 5.0, 9.0]], np.float32),
        np.array([[True, True, True, False]]),
    )
    from_module = confidence.coefficient_of_variation(references)
    assert float(from_module[0]) == pytest.approx(0.1)


def test_a_status_survives_redrawing():
    references = References(np.ones((2, 1), np.float32), np.full((2, 1), 0.2, np.float32), np.ones((2, 1), bool))
    execution = Execution(np.array([[Status.TIMEOUT, Status.NOT_RUN]]), np.array([[10.0, 0.0]], np.float32))
    _, redrawn = confidence.redraw(references, execution, jax.random.key(1))
    np.testing.assert_array_equal(redrawn.status, execution.status)
    np.testing.assert_array_equal(redrawn.duration_s, execution.duration_s)


def test_the_scale_of_deviations_narrows_what_is_drawn():
    """A tenth of the deviation: 0.95 s against 1.0 s is 0.05 / (0.1 * 0.138) = 3.6 deviations away."""
    wide = judged(0.95, reference_s=1.0, std_s=0.1)
    narrow = judged(0.95, reference_s=1.0, std_s=0.1, noise_scale=0.1)
    assert float(wide.g) < 0.75
    assert float(narrow.g) > 0.99


def test_the_noise_of_a_test_is_its_mean_variance_over_the_spread_of_its_references():
    """References at 1 and 3 s: spread 1 + 1; deviations of 0.5 and 0.5 s: 0.25 + 0.25. A timeout does not count."""
    references = References(
        np.array([[1.0, 3.0, 10.0], [2.0, 2.0, 2.0], [1.0, 10.0, 10.0]], np.float32),
        np.array([[0.5, 0.5, 9.0], [0.1, 0.1, 0.1], [0.5, 0.5, 0.5]], np.float32),
        np.ones((3, 3), bool),
    )
    np.testing.assert_allclose(confidence.noise_share(references), [0.25, 1.0, 0.0])
    np.testing.assert_allclose(confidence.noise_share(references._replace(std_s=np.zeros((3, 3)))), 0.0)


def two_tests(candidate_s, **numbers):
    """Two references at 1 and 3 s; on the second test they differ by less than their deviation."""
    tests = Tests(np.full(2, 2), np.ones(2, np.int32), np.ones(2, bool))
    references = References(
        np.array([[1.0, 3.0], [2.0, 2.01]], np.float32), np.full((2, 2), 0.1, np.float32), np.ones((2, 2), bool)
    )
    seconds = np.array([candidate_s], np.float32)
    execution = Execution(np.zeros((1, 2), np.int32), seconds)
    return environment.judge(environment.build(**numbers), tests, references, execution)


def test_tests_that_are_mostly_noise_are_dropped_where_the_setting_says_so():
    """Fastest on the first test, slowest on the second: a mean of 0.5, or 0 without the second."""
    plain = two_tests([0.5, 2.5], family="qar_ranked", threshold=0.3)
    kept = two_tests([0.5, 2.5], family="qar_ranked", threshold=0.3, most_noise=0.5)
    assert (float(plain.q[0]), float(kept.q[0])) == (0.5, 0.0)
    assert (float(plain.g[0]), float(kept.g[0])) == (0.0, 1.0)


def test_a_margin_lengthens_limits_by_the_deviation_of_the_test():
    """The second test's coefficient of variation is 0.2 / 4.01: two deviations move 2.05 s to 2.25 s."""
    late = {"family": "absolute_timeout", "limit": 2.05, "tolerance": 0.0}
    assert float(two_tests([0.5, 2.2], **late).g[0]) == 0.0
    assert float(two_tests([0.5, 2.2], **late, limit_margin=2.0).g[0]) == 1.0
    assert float(two_tests([0.5, 2.3], **late, limit_margin=2.0).g[0]) == 0.0


def test_the_calibration_brings_deviations_to_the_same_clock():
    references = References(np.ones((1, 2), np.float32), np.full((1, 2), 0.1, np.float32), np.ones((1, 2), bool))
    np.testing.assert_allclose(calibrated(references, alpha=2.0, beta_s=0.5).std_s, 0.2)
