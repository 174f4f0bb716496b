"""Edge: the groups of one optimizer step: taken from a rollout source until they fill it, with older ones if asked.

With `grpo.batch_tokens` a step is filled with groups that carry a signal: what is stale, invalid or without advantage
is counted and replaced, so that every optimizer step has tokens (App. F, Figure 45, "Token-budget packing"). Without it
a step is the groups of `grpo.problems` prompts, whatever they are worth.
"""

import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax.distributed import multihost
from optimrl_jax.grpo import rows as rows_lib
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.rollout import groups as groups_lib
from optimrl_jax.rollout.groups import Group
from optimrl_jax.settings import DataSettings, GrpoSettings


class GivesGroups(typing.Protocol):
    """What is needed of a rollout source here; see `loop.RolloutSource`."""

    def take(self, *, step: int, number: int) -> list[Group]: ...

    def give_back(self, groups: Sequence[Group], *, number: int) -> None: ...


class StepGroups(typing.NamedTuple):
    """What one step learns from, the same in every process.

    Attributes:
      groups: new ones, in the order of their ids or as they came.
      replayed: older ones that join them.
    """

    groups: list[Group]
    replayed: list[Group]


class StepCollector:
    """Takes the groups of one step after another; keeps those that may be learned from again.

    Args:
      source: where new groups come from.
      grpo: size of a step, and what is replayed.
      data: length of the rows that groups are packed into.
      seed: of the choice among older groups.
    """

    def __init__(self, source: GivesGroups, grpo: GrpoSettings, data: DataSettings, *, seed: int) -> None:
        self._source, self._grpo, self._data, self._seed = source, grpo, data, seed
        self._kept: list[Group] = []

    def collect(self, *, step: int) -> StepGroups:
        """Take the groups of a step; all processes call this together.

        Args:
          step: optimizer steps taken so far.

        Raises:
          UserError: if none of `grpo.most_groups` groups carries a signal, where a step is filled.
        """
        grpo = self._grpo
        groups = self._fill(step) if grpo.batch_tokens else self._take(step, grpo.problems)
        replayed = self._draw(groups, step)
        if grpo.replay_groups:
            new = [group for group, _ in self._informative(groups, step)]
            self._kept = [*self._kept, *new][-grpo.replay_groups :]
        return StepGroups(groups, replayed)

    def state(self) -> dict[str, np.ndarray] | None:
        """Return the groups that may be replayed, stacked, for a checkpoint; None for none."""
        return groups_lib.stack_groups(self._kept) if self._kept else None

    def restore(self, contents: dict[str, np.ndarray] | None) -> None:
        """Go on where `state` was taken."""
        self._kept = groups_lib.unstack_groups(contents) if contents else []

    def _take(self, step: int, number: int) -> list[Group]:
        return all_gather_groups(self._source.take(step=step, number=number))

    def _fill(self, step: int) -> list[Group]:
        """Take group after group until the next one with a signal does not fit; that one begins the next step."""
        most_rows = rows_lib.budget_rows(self._grpo, self._data)
        groups: list[Group] = []
        kept: groups_lib.Kept = []
        while len(groups) < self._grpo.most_groups:
            own = self._source.take(step=step, number=1)
            gathered = all_gather_groups(own)
            found = self._informative(gathered, step)
            if found and rows_lib.count_rows(kept + found, self._data) > most_rows:
                self._source.give_back(own, number=1)
                return groups
            groups += gathered
            kept += found
        if not kept:
            raise UserError(
                f"grpo.most_groups = {self._grpo.most_groups}: expected a training signal in one of so many"
            )
        return groups

    def _draw(self, groups: list[Group], step: int) -> list[Group]:
        """Draw older groups that are fresh enough and, with the new ones, fit into the rows of a step."""
        grpo = self._grpo
        fresh = [group for group in self._kept if groups_lib.staleness(group, step=step) <= grpo.max_staleness]
        if not fresh:
            return []
        order = np.random.default_rng((self._seed, step)).permutation(len(fresh))
        chosen = [fresh[index] for index in sorted(order[: grpo.replayed_groups])]
        room = rows_lib.max_microbatches(grpo, self._data) * self._data.micro_rows
        while chosen and rows_lib.count_rows(self._informative([*groups, *chosen], step), self._data) > room:
            chosen.pop()
        return chosen

    def _informative(self, groups: list[Group], step: int) -> groups_lib.Kept:
        return groups_lib.select_informative(groups, step=step, max_staleness=self._grpo.max_staleness)[0]


def all_gather_groups(groups: list[Group]) -> list[Group]:
    """Gather the groups of all processes in every one of them, in the order of their ids."""
    if multihost.process_index_and_count()[1] == 1:
        return groups
    states = multihost.all_gather_states(groups_lib.stack_groups(groups) if groups else {}, {})
    gathered = groups_lib.concatenate_groups([state.arrays for state in states])
    return sorted(groups_lib.unstack_groups(gathered or {}), key=lambda group: group.id)
