"""The schedule of a simulated run, and the synthetic problems it draws from."""

import numpy as np
import pytest

from optimrl_jax.arrays import Status
from optimrl_jax.simulator import schedule
from optimrl_jax.simulator.configurations import configurations
from optimrl_jax.simulator.problems import stack_problems, synthetic
from optimrl_jax.simulator.sweep import Passes, sweep
from tests.optimrl_jax import records

SCHEDULE = {"steps": 21, "problems": 3, "samples": 2, "band": 0.05, "seed": 0}


def ladder(problems: int = 4, references: int = 41) -> Passes:
    """Qualities 0, 1/40, ... 1 in each problem; the two configurations pass everybody and the better half."""
    quality = np.tile(np.linspace(0, 1, references), problems).astype(np.float32)
    passes = np.stack([np.ones_like(quality, bool), quality > 0.5], axis=1)
    return Passes(
        np.packbits(passes, axis=1), quality, np.ones(quality.size, bool), np.repeat(np.arange(problems), references)
    )


def test_samples_stay_in_the_band_around_the_target_and_problems_do_not_repeat_in_a_step():
    found = ladder()
    rows = schedule.sample_schedule(found, **SCHEDULE)
    assert rows.shape == (21, 6)
    distance = np.abs(found.quality[rows] - schedule.step_positions(21)[:, None])
    assert distance.max() <= 0.05 + 0.5 / 40 + 1e-6
    drawn = found.problem[rows].reshape(21, 3, 2)
    assert (drawn[..., 0] == drawn[..., 1]).all()
    assert all(len(set(of_step)) == 3 for of_step in drawn[..., 0].tolist())


def test_padding_and_faulty_references_are_never_sampled():
    found = ladder()
    allowed = np.random.default_rng(0).random(found.quality.size) < 0.3
    rows = schedule.sample_schedule(found._replace(is_candidate=allowed), **SCHEDULE)
    assert allowed[rows].all()


def test_the_same_seed_draws_the_same_samples_and_another_seed_others():
    first, again = (schedule.sample_schedule(ladder(), **SCHEDULE) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first != schedule.sample_schedule(ladder(), **SCHEDULE | {"seed": 1})).any()


def test_curves_are_the_share_of_passing_samples():
    curves = schedule.pass_curves(ladder(), schedule.sample_schedule(ladder(), **SCHEDULE))[:2]
    assert (curves[0] == 1).all()
    assert (curves[1, :9] == 0).all()
    assert (curves[1, 12:] == 1).all()


def test_fewer_problems_than_a_step_asks_for_are_drawn_again():
    rows = schedule.sample_schedule(ladder(problems=1), **SCHEDULE)
    assert rows.shape == (21, 6)


def test_nobody_to_sample_is_refused():
    found = ladder()
    with pytest.raises(ValueError, match="usable optimization test"):
        schedule.sample_schedule(found._replace(is_candidate=np.zeros_like(found.is_candidate)), **SCHEDULE)


def test_synthetic_durations_have_the_papers_spread():
    """Table 21 and App. C.9: median 0.099 s, p90 0.736 s, p95 1.296 s, 6.9 % over 1 s, within a quarter."""
    duration_s = synthetic(problems=300, tests=119, references=32, seed=0).duration_s
    np.testing.assert_allclose(np.quantile(duration_s, [0.5, 0.9, 0.95]), [0.099, 0.736, 1.296], rtol=0.25)
    assert (duration_s > 1).mean() == pytest.approx(0.069, rel=0.25)


def test_synthetic_problems_repeat_with_their_seed_and_mark_timeouts():
    first, again = (synthetic(problems=40, tests=30, references=20, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.duration_s, again.duration_s)
    assert ((first.status == Status.TIMEOUT) == (first.duration_s >= 10)).all()
    assert (first.duration_s > 0).all()


def test_records_of_different_sizes_are_stacked_by_shape_and_keep_their_cells():
    found = records.ragged(0, problems=6)
    groups = stack_problems(found, shape_of=lambda record: (4 if len(record.test_kind) <= 4 else 8, 6))
    assert [group.status.shape[1:] for group in groups] == [(4, 6), (8, 6)]
    assert sum(len(group.status) for group in groups) == 6
    first = next(record for record in found if len(record.test_kind) <= 4)
    k = len(first.test_kind)
    np.testing.assert_array_equal(groups[0].status[0, :k, :4], first.status)
    assert (groups[0].status[0, k:] == Status.NOT_RUN).all()
    assert (groups[0].status[0, :, 4:] == Status.NOT_RUN).all()
    assert groups[0].tests.characters[0, 1] == len("1\n") + len("2\n")


def test_a_sweep_over_stacked_records_ignores_their_padding():
    found = records.ragged(1, problems=2)
    swept = [
        sweep(stack_problems(found, shape_of=shape_of))
        for shape_of in (lambda one: one.status.shape, lambda one: (8, 8))
    ]
    tight, wide = (sorted(one.passes(one.is_candidate).tolist()) for one in swept)
    assert len(tight) > 0
    assert len(tight[0]) == len(configurations())
    assert tight == wide
