"""Every family against the slow version on random ragged problems, by hand, and under changes that must not matter."""

import jax
import numpy as np
import pytest

from optimrl_jax import arrays, environment
from optimrl_jax.arrays import Status
from optimrl_jax.environment import padding
from tests.optimrl_jax.environment import slow
from tests.optimrl_jax.records import record

K, H, R = 16, 8, 6
JUDGE = jax.jit(environment.judge)
NUMBERS = {
    "absolute_filter": {"filter_limit": 0.04, "limit": 0.03, "tolerance": 0.3},
    "length_filter": {"filter_limit": 30, "limit": 0.03, "tolerance": 0.3},
    "relative_filter": {"filter_limit": 40, "limit": 0.03, "tolerance": 0.5},
    "absolute_timeout": {"limit": 0.03, "tolerance": 0.5},
    "relative_timeout": {"limit": 30, "tolerance": 0.5},
    "ranked_timeout": {"limit": 60, "tolerance": 0.5},
    "mc_mo": {"tolerance": 0.0},
}


class Ragged:
    """A random problem with ties, unusable cells and candidates of every status; unpadded."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        k, h = int(draw.integers(2, 12)), int(draw.integers(1, 8))
        self.kind = draw.choice([0, 1, 2, 2, 2], size=k)
        self.characters = draw.integers(1, 60, size=k)
        # Few distinct values, so that ties occur everywhere.
        self.duration_s = draw.choice([0.0, 0.01, 0.02, 0.03, 0.05, 10.0], size=(k, h)).astype(np.float32)
        self.is_usable = draw.random((k, h)) < 0.8
        self.status = draw.choice([0, 0, 0, 0, 0, 1, 2, 3], size=(R, k), p=[0.15] * 5 + [0.15, 0.05, 0.05])
        self.candidate_s = draw.choice([0.005, 0.01, 0.0212, 0.0407], size=(R, k)).astype(np.float32)

    def padded(self, order=None):
        k, h = self.duration_s.shape
        order = np.arange(k) if order is None else order
        tests = arrays.Tests(np.zeros(K, np.int32), np.zeros(K, np.int32), np.zeros(K, bool))
        for target, values in zip(tests, (self.kind, self.characters, np.ones(k, bool)), strict=True):
            target[:k] = values[order]
        references = arrays.References(
            np.zeros((K, H), np.float32), np.zeros((K, H), np.float32), np.zeros((K, H), bool)
        )
        references.duration_s[:k, :h] = self.duration_s[order]
        references.is_usable[:k, :h] = self.is_usable[order]
        return (
            tests,
            references,
            padding.pad_execution(arrays.Execution(self.status[:, order], self.candidate_s[:, order]), K),
        )


def options(family, seed):
    choice = {"ties": ("first", "average")[seed % 2], "aggregate": ("mean", "median")[seed % 2]}
    return choice | {"bound": ("max", "median")[seed % 2]} | NUMBERS.get(family, {})


@pytest.mark.parametrize("calibration", [{}, {"alpha": 1.5, "beta_s": 0.004}], ids=["identity", "affine"])
@pytest.mark.parametrize("family", environment.FAMILIES)
def test_every_family_agrees_with_the_slow_version(family, calibration):
    for seed in range(25):
        problem = Ragged(seed)
        env = environment.build(family, **options(family, seed), **calibration)
        outcome = JUDGE(env, *problem.padded())
        for row in range(R):
            expected = slow.judge(
                env,
                environment.FAMILIES[family],
                problem.kind,
                problem.characters,
                problem.duration_s.tolist(),
                problem.is_usable,
                problem.status[row],
                problem.candidate_s[row].tolist(),
            )
            found = [float(np.asarray(part)[row]) for part in outcome]
            assert found == pytest.approx([float(v) for v in expected], abs=1e-5), (family, seed, row)


@pytest.mark.parametrize("family", ["mc_mo", "relative_timeout", "ranked_timeout", "qar_ranked", "qp_ranked"])
def test_the_order_of_tests_does_not_matter(family):
    problem = Ragged(3)
    env = environment.build(family, **NUMBERS.get(family, {}))
    order = np.random.default_rng(0).permutation(len(problem.kind))
    straight, permuted = JUDGE(env, *problem.padded()), JUDGE(env, *problem.padded(order))
    for left, right in zip(straight, permuted, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


@pytest.mark.parametrize("family", ["qar_ranked", "qp_ranked"])
def test_scaling_all_durations_does_not_move_a_rank(family):
    problem = Ragged(5)
    env = environment.build(family)
    before = JUDGE(env, *problem.padded()).q
    problem.duration_s = np.where(problem.duration_s < 10, problem.duration_s * 4, problem.duration_s)
    problem.duration_s[problem.duration_s == 0] = 10.0
    problem.candidate_s = problem.candidate_s * 4
    np.testing.assert_allclose(JUDGE(env, *problem.padded()).q, before, atol=1e-6)


def by_hand(candidate_s, *, family="qp_ranked", **numbers):
    """One candidate on the twin problem: references at 10, 20, 30 and 40 ms on three optimization tests."""
    entry = record()
    status = np.zeros((1, 5), np.int8)
    seconds = np.full((1, 5), candidate_s, np.float32)
    env = environment.build(family, **numbers)
    k, h = padding.shape_of([entry])
    outcome = JUDGE(
        env,
        padding.pad_tests(entry, k),
        padding.pad_references(entry, k, h),
        padding.pad_execution(arrays.Execution(status, seconds), k),
    )
    return {name: float(getattr(outcome, name)[0]) for name in outcome._fields}


@pytest.mark.parametrize(("candidate_s", "q"), [(0.005, 0.0), (0.015, 0.25), (0.025, 0.5), (0.035, 0.75), (0.045, 1.0)])
def test_a_candidate_between_references_takes_the_place_between_them(candidate_s, q):
    assert by_hand(candidate_s)["q"] == pytest.approx(q)
    assert by_hand(candidate_s, family="qar_ranked")["q"] == pytest.approx(q)


def test_tied_durations_share_the_first_position():
    assert by_hand(0.02, family="qar_ranked")["q"] == pytest.approx(1 / 4)
    assert by_hand(0.02, family="qar_ranked", ties="average")["q"] == pytest.approx(1.5 / 4)
    assert by_hand(0.02)["q"] == pytest.approx(1 / 4)


def test_the_gate_opens_at_its_threshold():
    assert by_hand(0.015, threshold=0.25)["g"] == 1
    assert by_hand(0.015, threshold=0.24)["g"] == 0


def test_a_problem_without_usable_references_is_not_ranked():
    entry = record(status=np.full((5, 4), Status.FAILURE, np.int8))
    k, h = padding.shape_of([entry])
    execution = padding.pad_execution(arrays.Execution(np.zeros((1, 5), np.int8), np.full((1, 5), 0.5)), k)
    outcome = JUDGE(
        environment.build("qp_ranked"), padding.pad_tests(entry, k), padding.pad_references(entry, k, h), execution
    )
    assert (outcome.g[0], outcome.q[0], outcome.c_strict[0]) == (1, 0, 1)


@pytest.mark.parametrize("family", ["mc_mo", "qp_ranked"])
def test_eager_and_compiled_judging_agree(family):
    tests, references, execution = Ragged(11).padded()
    few = (slice(4), slice(2))
    small = (
        arrays.Tests(*(part[:4] for part in tests)),
        arrays.References(*(part[few] for part in references)),
        arrays.Execution(*(part[:2, :4] for part in execution)),
    )
    env = environment.build(family, **options(family, 1))
    with jax.disable_jit():
        eager = environment.judge(env, *small)
    for left, right in zip(eager, JUDGE(env, *small), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


@pytest.mark.parametrize("family", ["absolute_filter", "relative_timeout", "ranked_timeout", "qar_ranked", "qp_ranked"])
def test_the_order_of_references_does_not_matter(family):
    problem = Ragged(4)
    # Distinct durations: among references of equal mean rank the earlier one is kept by ranked timeouts.
    draw = np.random.default_rng(1)
    problem.duration_s = draw.uniform(0.005, 0.05, problem.duration_s.shape).astype(np.float32)
    env = environment.build(family, **NUMBERS.get(family, {}))
    straight = JUDGE(env, *problem.padded())
    order = draw.permutation(problem.duration_s.shape[1])
    problem.duration_s, problem.is_usable = problem.duration_s[:, order], problem.is_usable[:, order]
    for left, right in zip(straight, JUDGE(env, *problem.padded()), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


@pytest.mark.parametrize("family", ["qar_ranked", "qp_ranked"])
def test_leaving_one_out_ranks_a_reference_against_the_others(family):
    problem = Ragged(6)
    rows = min(problem.duration_s.shape[1], R)
    problem.status[:] = Status.SUCCESS
    problem.candidate_s[:rows] = problem.duration_s.T[:rows]
    own_reference = np.where(np.arange(R) < rows, np.arange(R), -1)
    env = environment.build(family, leave_one_out=True)
    found = JUDGE(env, *problem.padded(), own_reference).q
    usable = problem.is_usable.copy()
    for row in range(R):
        problem.is_usable = usable.copy()
        if own_reference[row] >= 0:
            problem.is_usable[:, own_reference[row]] = False
        expected = JUDGE(environment.build(family), *problem.padded()).q[row]
        assert float(found[row]) == pytest.approx(float(expected), abs=1e-6)


def test_leaving_one_out_needs_to_know_who_is_who():
    with pytest.raises(ValueError, match="own_reference = None"):
        environment.judge(environment.build("qp_ranked", leave_one_out=True), *Ragged(0).padded())


@pytest.mark.parametrize("family", ["qar_ranked", "qp_ranked"])
@pytest.mark.parametrize("references", [1, 4], ids=["one_reference", "all_tied"])
def test_a_candidate_tied_with_everyone_is_first_and_a_slower_one_last(family, references):
    problem = Ragged(2)
    k, h = problem.duration_s.shape[0], min(references, H)
    problem.kind = np.full(k, 2)
    problem.duration_s, problem.is_usable = np.full((k, h), 0.02, np.float32), np.ones((k, h), bool)
    problem.status[:] = Status.SUCCESS
    problem.candidate_s[0], problem.candidate_s[1] = 0.02, 0.03
    outcome = JUDGE(environment.build(family), *problem.padded())
    assert (float(outcome.q[0]), float(outcome.q[1])) == (0.0, 1.0)
    assert (float(outcome.g[0]), float(outcome.g[1])) == (1.0, 0.0)


def test_a_program_stopped_at_its_first_failure_is_wrong_without_the_other_tests():
    problem = Ragged(9)
    problem.kind[0] = 0
    problem.status[:], problem.status[0, 0], problem.status[0, 1:] = Status.SUCCESS, Status.FAILURE, Status.NOT_RUN
    outcome = JUDGE(environment.build("qp_ranked"), *problem.padded())
    assert (float(outcome.c[0]), float(outcome.c_strict[0]), bool(outcome.is_valid[0])) == (0, 0, True)


def test_numbers_are_traced_and_a_sweep_is_one_vmap():
    problem = Ragged(7)
    thresholds = np.linspace(0.1, 0.9, 9).astype(np.float32)
    stacked = jax.tree.map(
        lambda *leaves: np.stack(leaves), *[environment.build("qp_ranked", threshold=float(t)) for t in thresholds]
    )
    swept = jax.jit(jax.vmap(environment.judge, in_axes=(0, None, None, None)))(stacked, *problem.padded())
    for index, threshold in enumerate(thresholds):
        single = environment.judge(environment.build("qp_ranked", threshold=float(threshold)), *problem.padded())
        np.testing.assert_array_equal(swept.g[index], single.g)
        np.testing.assert_allclose(swept.q[index], single.q, atol=1e-6)


def test_the_sweep_of_the_paper_has_1578_configurations():
    sizes = {
        name: int(np.prod([len(values) for values in family.grid.values()])) if family.grid else 0
        for name, family in environment.FAMILIES.items()
    }
    assert sizes["absolute_filter"] == sizes["length_filter"] == 392
    assert (sizes["relative_filter"], sizes["absolute_timeout"], sizes["relative_timeout"]) == (504, 56, 72)
    assert (sizes["ranked_timeout"], sizes["qar_ranked"], sizes["qp_ranked"]) == (144, 9, 9)
    assert sum(sizes.values()) == 1578


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "fast"}, "environment.family = 'fast': expected one of rlvr"),
        ({"family": "mc_mo", "tolerance": 1.5}, "environment.tolerance = 1.5"),
        ({"family": "qp_ranked", "threshold": -0.1}, "environment.threshold = -0.1"),
        ({"family": "qp_ranked", "ties": "last"}, "environment.ties = 'last'"),
        ({"family": "absolute_timeout", "limit": float("nan")}, "environment.limit = nan"),
        ({"family": "absolute_filter", "filter_limit": -1}, "environment.filter_limit = -1"),
        ({"family": "qp_ranked", "alpha": 0}, "environment.alpha = 0"),
        ({"family": "qp_ranked", "noise_draws": -1}, "environment.noise_draws = -1"),
    ],
)
def test_a_wrong_environment_is_refused(options, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        environment.build(**options)


@pytest.mark.parametrize("family", ["relative_timeout", "ranked_timeout", "qp_ranked"])
def test_a_problem_without_any_references_is_neutral(family):
    tests = arrays.Tests(np.array([0, 2]), np.ones(2, np.int32), np.ones(2, bool))
    nobody = arrays.References(np.zeros((2, 0)), np.zeros((2, 0)), np.zeros((2, 0), bool))
    execution = arrays.Execution(np.zeros((1, 2), np.int32), np.full((1, 2), 0.5))
    environment.check(tests, nobody, execution)
    found = environment.judge(environment.build(family, limit=30.0), tests, nobody, execution)
    assert [float(part[0]) for part in found] == [1, 1, 1, 0, 1]
