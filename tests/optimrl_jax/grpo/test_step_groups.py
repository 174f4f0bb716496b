"""What a step learns from: filled up with groups that carry a signal, and older ones where they are asked for."""

import dataclasses

import numpy as np
import pytest

from optimrl_jax.grpo import rows as rows_lib
from optimrl_jax.grpo.step_groups import StepCollector
from optimrl_jax.jobs.errors import SettingsError, UserError
from tests.optimrl_jax.grpo.groups import SETTINGS, group

MIXED, FLAT = (1.0, -1.0, 0.0, 1.0), (0.5,) * 4
# Each of these groups packs into two rows of 16 tokens.
ROW = SETTINGS.data.row_tokens


class Source:
    """Gives the groups it is made with, again from the start when they run out."""

    def __init__(self, groups):
        self.waiting, self.all = list(groups), list(groups)

    def take(self, *, step, number):
        taken = []
        for _ in range(number):
            self.waiting = self.waiting or list(self.all)
            taken.append(self.waiting.pop(0))
        return taken

    def give_back(self, groups, *, number):
        assert number == len(groups)
        self.waiting = [*groups, *self.waiting]


def numbered(rewards):
    return [group(seed, reward=reward) for seed, reward in enumerate(rewards)]


def collector(source, **grpo):
    return StepCollector(source, dataclasses.replace(SETTINGS.grpo, **grpo), SETTINGS.data, seed=0)


def rows_of(*groups):
    return rows_lib.count_rows([(one, np.ones(4)) for one in groups], SETTINGS.data)


def problems(groups):
    return [int(one.problem) for one in groups]


def test_without_a_budget_a_step_is_the_groups_of_its_prompts():
    own = collector(Source(numbered([FLAT, MIXED, FLAT, FLAT])), problems=2)
    assert [problems(own.collect(step=step).groups) for step in range(2)] == [[0, 1], [2, 3]]


def test_a_step_is_filled_past_groups_without_a_signal_and_leaves_what_does_not_fit():
    groups = numbered([FLAT, MIXED, FLAT, MIXED, MIXED, FLAT])
    budget = rows_of(groups[1], groups[3])
    assert rows_of(groups[1], groups[3], groups[4]) > budget
    own = collector(Source(groups), batch_tokens=budget * ROW)
    first, second = (own.collect(step=step) for step in range(2))
    assert problems(first.groups) == [0, 1, 2, 3]
    # The group that did not fit begins the next step: nothing is lost or repeated.
    assert problems(second.groups)[:3] == [4, 5, 0]
    assert first.replayed == []


def test_a_source_without_any_signal_ends_the_run_and_one_with_little_fills_what_it_can():
    own = collector(Source(numbered([FLAT])), batch_tokens=8 * ROW, most_groups=5)
    with pytest.raises(UserError, match=r"grpo.most_groups = 5: expected a training signal"):
        own.collect(step=0)
    own = collector(Source(numbered([FLAT, FLAT, MIXED])), batch_tokens=8 * ROW, most_groups=3)
    assert problems(own.collect(step=0).groups) == [0, 1, 2]


def test_a_budget_has_to_hold_the_longest_group():
    grpo = dataclasses.replace(SETTINGS.grpo, batch_tokens=3 * ROW)
    # Four rollouts of 12 tokens, of which one fits into a row of 16.
    with pytest.raises(SettingsError, match=r"grpo.batch_tokens = 48: expected at least 64, the 4 rows"):
        rows_lib.max_microbatches(grpo, SETTINGS.data)
    assert rows_lib.max_microbatches(dataclasses.replace(grpo, batch_tokens=9 * ROW), SETTINGS.data) == 2


def test_older_groups_with_a_signal_join_a_step_while_they_are_fresh():
    groups = numbered([MIXED, FLAT, MIXED, MIXED, MIXED, MIXED])
    own = collector(Source(groups), problems=2, replay_groups=2, replayed_groups=2, max_staleness=2)
    first, second, third, late = (own.collect(step=step) for step in (0, 1, 2, 3))
    assert first.replayed == []
    # Of the first step one group had a signal; two are kept, the newest ones.
    assert problems(second.replayed) == [0]
    assert sorted(problems(third.replayed)) == [2, 3]
    assert late.replayed == []


def test_kept_groups_survive_a_checkpoint_and_are_drawn_alike():
    groups = numbered([MIXED] * 6)
    changes = {"problems": 2, "replay_groups": 4, "replayed_groups": 1}
    whole, stopped = (collector(Source(groups), **changes) for _ in range(2))
    for step in range(2):
        whole.collect(step=step)
        stopped.collect(step=step)
    resumed = collector(Source(groups[4:]), **changes)
    resumed.restore(stopped.state())
    assert problems(resumed.collect(step=2).replayed) == problems(whole.collect(step=2).replayed)
