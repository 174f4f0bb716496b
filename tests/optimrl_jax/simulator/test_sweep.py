"""The shared sweep against `environment.judge`, one configuration at a time."""

import jax
import numpy as np
import pytest

from optimrl_jax import environment
from optimrl_jax.arrays import References, Status, Tests
from optimrl_jax.environment.calibration import calibrated
from optimrl_jax.environment.families import CHARACTERS, DURATIONS_S, PERCENTS
from optimrl_jax.environment.filters import FILTERS
from optimrl_jax.environment.limits import LIMITS
from optimrl_jax.simulator.configurations import STAGES, configurations
from optimrl_jax.simulator.problems import Problems, prepare_problems, synthetic
from optimrl_jax.simulator.sweep import sweep
from tests.benchmarks.simulator import numpy_passes
from tests.optimrl_jax.simulator import ragged

judge = jax.jit(environment.judge)
judge_all = jax.jit(jax.vmap(environment.judge, in_axes=(0, None, None, None)))


@pytest.fixture(scope="module")
def swept():
    groups = [ragged.problems(seed, b=2) for seed in (0, 1)]
    return groups, sweep(groups)


def test_the_grids_of_the_paper_hold_1578_configurations_with_unique_names():
    found = configurations()
    sizes = {family: sum(one.family == family for one in found) for family in STAGES}
    assert list(sizes.values()) == [392, 392, 504, 56, 72, 144, 9, 9]
    assert len({one.name for one in found}) == len(found) == 1578
    assert configurations()[-1].name == "qp_ranked threshold=0.9"


@pytest.mark.parametrize("family", STAGES)
def test_every_configuration_passes_exactly_whom_judge_passes(family, swept):
    groups, found = swept
    members = [(column, one, one.environment()) for column, one in enumerate(configurations()) if one.family == family]
    forms = {jax.tree.structure(own): [] for _, _, own in members}
    for member in members:
        forms[jax.tree.structure(member[2])].append(member)
    h = groups[0].status.shape[2]
    seen = set()
    for form in forms.values():
        columns, names = [column for column, _, _ in form], np.array([one.name for _, one, _ in form])
        environments = jax.tree.map(lambda *numbers: np.stack(numbers), *(own for _, _, own in form))
        for problem in range(4):
            tests, references, execution = ragged.judged_form(groups[problem // 2], problem % 2)
            rows = np.arange(problem * h, (problem + 1) * h)[found.is_candidate[problem * h : (problem + 1) * h]]
            outcome = judge_all(environments, tests, references, execution)
            expected = (np.asarray(outcome.c_strict) * np.asarray(outcome.g)).astype(bool)[:, rows - problem * h].T
            wrong = names[(found.passes(rows)[:, columns] != expected).any(axis=0)]
            assert not wrong.size, wrong
            seen |= set(expected.ravel().tolist())
    assert seen == {True, False}


def test_quality_is_the_place_on_the_leaderboard_of_the_qp_family(swept):
    groups, found = swept
    env = environment.build("qp_ranked")
    h = groups[0].status.shape[2]
    for problem in range(4):
        tests, references, execution = ragged.judged_form(groups[problem // 2], problem % 2)
        pool = np.asarray(tests.mask & (tests.kind == 2))[:, None]
        ran_all = np.all(references.is_usable | ~pool, axis=0)
        q = np.asarray(judge(env, tests, references, execution).q)
        np.testing.assert_allclose(found.quality[problem * h : (problem + 1) * h][ran_all], 1 - q[ran_all], atol=1e-6)


def test_the_calibration_moves_passes_as_it_moves_them_for_judge():
    group = ragged.problems(5, b=1)
    found = sweep([group], alpha=0.5, beta_s=0.25)
    tests, references, execution = ragged.judged_form(group, 0)
    # A reference as a candidate stands on the calibrated scale; halves and quarters round alike everywhere.
    moved = np.minimum(10, 0.5 * group.duration_s[0] + 0.25).astype(np.float32).T
    for column, one in list(enumerate(configurations()))[::83]:
        env = one.environment(alpha=0.5, beta_s=0.25)
        outcome = judge(env, tests, references, execution._replace(duration_s=moved))
        expected = (np.asarray(outcome.c_strict) * np.asarray(outcome.g)).astype(bool)
        np.testing.assert_array_equal(found.passes(found.is_candidate)[:, column], expected[found.is_candidate])


def test_padding_and_the_order_of_tests_and_references_change_nothing(swept):
    groups, found = swept
    group, draw = groups[0], np.random.default_rng(3)
    tests, references = draw.permutation(group.status.shape[1]), draw.permutation(group.status.shape[2])
    shuffled = Problems(
        Tests(*(leaf[:, tests] for leaf in group.tests)),
        *(leaf[:, tests][:, :, references] for leaf in (group.duration_s, group.status)),
    )
    widened = Problems(
        Tests(*(np.pad(leaf, ((0, 0), (0, 3))) for leaf in shuffled.tests)),
        np.pad(shuffled.duration_s, ((0, 0), (0, 3), (0, 2)), constant_values=7.0),
        np.pad(shuffled.status, ((0, 0), (0, 3), (0, 2)), constant_values=Status.NOT_RUN),
    )
    h = group.status.shape[2]
    original = found.passes(slice(2 * h)).reshape(2, h, -1)
    is_candidate = found.is_candidate[: 2 * h].reshape(2, h)
    other = sweep([widened])
    passes = other.passes(slice(None)).reshape(2, h + 2, -1)
    # Equal mean ranks and equal aggregates are cut by position, so that the two families that cut compare loosely.
    cuts = np.array([one.family in ("ranked_timeout", "relative_filter") for one in configurations()])
    for problem in range(2):
        kept = is_candidate[problem][references]
        before, after = original[problem][references][kept], passes[problem, :h][kept]
        np.testing.assert_array_equal(before[:, ~cuts], after[:, ~cuts])
        assert (before[:, cuts] != after[:, cuts]).mean() < 0.1
    assert not other.is_candidate.reshape(2, h + 2)[:, h:].any()


def test_filters_and_limits_of_numpy_are_those_of_jax():
    """The sweep prepares both for many problems in NumPy; training computes them for one, traced.

    Sums in another order part equal means, so that no two tests have one here.
    """
    group = ragged.problems(7, b=5, k=23, h=19)
    jitter = np.random.default_rng(0).uniform(0.9, 1, group.duration_s.shape).astype(np.float32)
    group = group._replace(duration_s=group.duration_s * jitter)
    prepared = prepare_problems(group, alpha=1.0, beta_s=0.0)
    grids = [("absolute", DURATIONS_S), ("length", CHARACTERS), ("relative", PERCENTS), ("none", (0.0,))]
    for index in range(5):
        tests, references, _ = ragged.judged_form(group, index)
        references = jax.tree.map(jax.numpy.asarray, calibrated(references, alpha=1.0, beta_s=0.0))
        kept = [FILTERS[name](tests, references, limit, aggregate="mean") for name, grid in grids for limit in grid]
        real = tests.mask
        np.testing.assert_array_equal(prepared.is_kept[index][:, real], np.stack(kept)[:, real])
        limits = [LIMITS["relative"](references, percent, bound="max") for percent in PERCENTS]
        np.testing.assert_allclose(prepared.limit_s[index, : len(PERCENTS)], np.stack(limits), rtol=1e-6)


def test_ranked_limits_by_hand():
    """Three references: A is fastest on both tests, B second, C third; the best 60 % are A and B."""
    duration_s = np.array([[[1.0, 2.0, 4.0], [2.0, 3.0, 9.0]]], np.float32)
    tests = Tests(np.full((1, 2), 2, np.int32), np.zeros((1, 2), np.int32), np.ones((1, 2), bool))
    prepared = prepare_problems(Problems(tests, duration_s, np.zeros((1, 2, 3), np.int32)), alpha=1.0, beta_s=0.0)
    np.testing.assert_array_equal(prepared.places[0], [[0, 1, 2], [0, 1, 2]])
    np.testing.assert_allclose(prepared.limit_s[0, 19:21], [[2.0, 3.0], [1.5, 2.5]])


def test_the_limits_of_large_pools_are_those_of_the_environment():
    """191 tests x 516 references: B and A stand side by side with mean ranks that one float32 would tie.

    Everybody else has one place on all tests; 257 of them are ahead of both. B is slower than A on test 0 and missing
    on test 2, A is slower than B on test 1: 257 + 1/190 against 257 + 1/191, so that the best half holds A and not B.
    """
    duration_s = np.tile(np.concatenate([[2.575, 2.575], np.arange(1, 515) / 100]), (191, 1)).astype(np.float32)
    duration_s[0, 0], duration_s[1, 1] = 2.577, 2.577
    is_usable = np.ones(duration_s.shape, bool)
    is_usable[2, 0] = False
    tests = Tests(np.full((1, 191), 2, np.int32), np.zeros((1, 191), np.int32), np.ones((1, 191), bool))
    status = np.where(is_usable, Status.SUCCESS, Status.FAILURE).astype(np.int32)
    found = prepare_problems(Problems(tests, duration_s[None], status[None]), alpha=1.0, beta_s=0.0)
    references = calibrated(References(duration_s, np.zeros_like(duration_s), is_usable), alpha=1.0, beta_s=0.0)
    limit_s = np.asarray(LIMITS["ranked"](references, 50.0, bound="max"))
    np.testing.assert_array_equal(found.limit_s[0, 17], limit_s)
    assert limit_s[:3].tolist() == np.float32([2.575, 2.577, 2.575]).tolist()


def test_a_sweep_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one problem"):
        sweep([])


def test_a_plain_numpy_loop_passes_the_same_references():
    """The benchmark's loop, written from Table 38 without any function of the environment."""
    problems = synthetic(problems=2, tests=20, references=15, seed=2)
    assert (problems.duration_s < 10).all()
    found = sweep([problems])
    passes = found.passes(slice(None)).reshape(2, 15, -1)
    for column, one in list(enumerate(configurations()))[::7]:
        for index in range(2):
            expected = numpy_passes(one, jax.tree.map(lambda leaf, index=index: leaf[index], problems))
            np.testing.assert_array_equal(passes[index, :, column], expected, err_msg=one.name)
