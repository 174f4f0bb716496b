"""Edge: replays the rollouts that a training run kept under other states of the timing service (App. C.12).

Policy, problems and programs stay fixed, so that what moves is the service's doing alone: rewards, signs of advantages,
and the direction in which an update would have gone.
"""

import json
import logging
import pathlib
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from optimrl_jax import environment, rewards
from optimrl_jax.analysis.sections import FigureOf, Row, Section, TableOf, absent
from optimrl_jax.analysis.study import Study, run_labels
from optimrl_jax.arrays import AffineMap
from optimrl_jax.data.dataset import ProblemRecord, load_records
from optimrl_jax.evaluation import style
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.rollout import journal
from optimrl_jax.rollout.groups import token_weighted
from optimrl_jax.rollout.rewarder import Rewarder
from optimrl_jax.settings import Settings
from optimrl_jax.training.workdir import JOB_FILE

_LOG = logging.getLogger(__name__)
DRAWS = 4
MOST_GROUPS = 48
HEALTHY = "healthy"
# float32 rewards of a journal and of its replay.
REWARD_ROUNDING = 1e-5
NEEDS_RUNS = (
    "name workdirs with --runs=W1,W2 of runs that kept their rollouts (grpo.keeps_rollouts) and whose dataset is there"
)


class StoredRun(typing.NamedTuple):
    """One rollout as a rewarder reads it.

    Attributes:
      status: `[k]`.
      duration_s: `[k]`.
      drift: maps stored seconds to the clock of these.
    """

    status: np.ndarray
    duration_s: np.ndarray
    drift: AffineMap

    @classmethod
    def of(cls, row: Mapping[str, typing.Any]) -> "StoredRun":
        """Take what a rewarder reads from a rollout of a journal (`journal.read_rollouts`)."""
        return cls(np.array(row["status"]), np.array(row["duration_s"], np.float32), journal.drift_of(row))


def service_states(study: Study) -> Section:
    """Tabulate and draw what each state of the service does to the rewards of the stored rollouts of each run."""
    title = "The same rollouts under other service states"
    labels = run_labels(study.runs)
    found = {labels[str(run)]: rows for run in study.runs if (rows := _replay_workdir(run))}
    if not found:
        return absent(
            title, "Stored rollouts, judged again as a slow or noisy service would have reported them.", NEEDS_RUNS
        )
    rows: list[Row] = [{"run": run} | row for run, of_run in found.items() for row in of_run]
    figure = style.new_figure(8.0, 4.2, caption=f"bars: means over groups; {DRAWS} replays of each")
    panels = figure.subplots(1, 2, sharey=True)
    states = [row["state"] for row in next(iter(found.values()))]
    for axes, (name, label) in zip(
        panels,
        (("sign_flips", "advantages of another sign, %"), ("update_cosine", "cosine with the recorded update")),
        strict=True,
    ):
        for index, (run, of_run) in enumerate(found.items()):
            y = np.arange(len(states)) + (index - (len(found) - 1) / 2) * 0.8 / len(found)
            values = [row[name] * (100 if name == "sign_flips" else 1) for row in of_run]
            axes.barh(y, np.nan_to_num(values), 0.76 / len(found), label=run, **style.bar_look(index))
        axes.set_xlabel(label)
        style.label_ticks(axes, y=states, size=8)
    panels[0].invert_yaxis()
    style.show_legend(panels[-1])
    caption = (
        "shift: mean change of a reward; service_std: deviation of a rollout's reward over replays; sign_flips: share "
        "of advantages; update_cosine: of token-weighted advantages; reproduced: rewards that a healthy replay repeats"
    )
    return Section(
        title,
        "Programs, tests and seconds are those that the run stored; only the service changes.",
        [TableOf("service_states", caption, rows)],
        [FigureOf("service_states", "what a state of the service does to an update", figure)],
    )


def replay_rollouts(
    rows: Sequence[Mapping[str, typing.Any]], records: Sequence[ProblemRecord], settings: Settings, *, draws: int
) -> list[Row]:
    """Replay rollouts under every state in `environment.SERVICE_STATES`.

    Args:
      rows: rollouts of a journal (`journal.read_rollouts`).
      records: the problems that they answer.
      settings: environment, reward and seed of the run.
      draws: replays of each group.

    Returns:
      A row for each state; empty where no group of two valid rollouts is of these problems.
    """
    place_of = {record.id: index for index, record in enumerate(records)}
    groups = stored_groups(rows, records, most=MOST_GROUPS)
    if not groups:
        return []
    rewarder = Rewarder(records, settings)
    found: list[Row] = []
    recorded: list[rewards.ReplayedRewards] = []
    for name in (HEALTHY, *(name for name in environment.SERVICE_STATES if name != HEALTHY)):
        state = environment.SERVICE_STATES[name]
        replays = [
            rewarder.replay(
                place_of[group[0]["problem"]],
                [StoredRun.of(row) for row in group],
                state=state,
                draws=draws,
                batch=group[0]["batch"],
            )
            for group in groups
        ]
        recorded = recorded or replays
        effects = [rewards.service_effect(own, healthy) for own, healthy in zip(replays, recorded, strict=True)]
        means = {field: _mean([getattr(one, field) for one in effects]) for field in rewards.ServiceEffect._fields}
        cosine = _update_cosine(groups, replays, recorded)
        found.append({"state": name, "groups": len(groups)} | means | {"update_cosine": cosine})
    same = [
        float(abs(row["reward"] - value) <= REWARD_ROUNDING)
        for group, replay in zip(groups, recorded, strict=True)
        for row, value, is_valid in zip(group, replay.reward[0], replay.is_valid[0], strict=True)
        if is_valid
    ]
    return [row | {"reproduced": _mean(same)} for row in found]


def _replay_workdir(run: pathlib.Path) -> list[Row]:
    """Read what a run stored and replay it; empty, with a line in the log, where something is missing."""
    rows = journal.read_rollouts(run / journal.FOLDER)
    if not rows or not (run / JOB_FILE).exists():
        return []
    try:
        settings = read_settings(run)
        records = load_records(settings.data.directory, settings.data.train_split)
    except UserError as error:
        _LOG.warning("%s: its rollouts are not replayed: %s", run, error)
        return []
    return replay_rollouts(rows, records, settings, draws=DRAWS)


def read_settings(run: pathlib.Path) -> Settings:
    """Read the settings that a job was started with.

    Args:
      run: its workdir.

    Raises:
      UserError: for a file that is no JSON, or settings of another version.
    """
    path = run / JOB_FILE
    nested: dict[str, typing.Any] = {}
    try:
        for name, value in json.loads(path.read_text())["settings"].items():
            *sections, field = name.split(".")
            place = nested
            for section in sections:
                place = place.setdefault(section, {})
            place[field] = value
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: expected the settings of a job ({error})") from None
    return freeze(Settings, nested)


def stored_groups(
    rows: Sequence[Mapping[str, typing.Any]], records: Sequence[ProblemRecord], *, most: int
) -> list[list[Mapping[str, typing.Any]]]:
    """Gather the groups of rollouts of known problems, spread over the run.

    Args:
      rows: rollouts of a journal (`journal.read_rollouts`).
      records: the problems; rollouts of others, and those that a fault left without a reward, are left out.
      most: groups to return.

    Returns:
      Groups of at least two rollouts, in the order of the run.
    """
    place_of = {record.id: index for index, record in enumerate(records)}
    by_key: dict[tuple[int, int], list[Mapping[str, typing.Any]]] = {}
    for row in rows:
        index = place_of.get(row["problem"])
        if row["is_valid"] and index is not None and len(row["status"]) == len(records[index].test_kind):
            by_key.setdefault((row["batch"], row["place"]), []).append(row)
    whole = [group for group in by_key.values() if len(group) > 1]
    return [whole[place] for place in np.unique(np.linspace(0, len(whole) - 1, most).astype(int))] if whole else []


def _update_cosine(
    groups: Sequence[Sequence[Mapping[str, typing.Any]]],
    replays: Sequence[rewards.ReplayedRewards],
    recorded: Sequence[rewards.ReplayedRewards],
) -> float:
    """Compare token-weighted advantages of all rollouts with the recorded ones: mean cosine over replays."""

    def updates(of_state: Sequence[rewards.ReplayedRewards]) -> np.ndarray:
        tokens = [np.array([row["tokens"] for row in group]) for group in groups]
        pairs = zip(of_state, tokens, strict=True)
        return np.concatenate([token_weighted(own.reward, of, own.is_valid) for own, of in pairs], axis=1)

    base, others = updates(recorded)[0], updates(replays)
    norms = [np.linalg.norm(base) * np.linalg.norm(other) for other in others]
    return _mean([float(base @ other / norm) for other, norm in zip(others, norms, strict=True) if norm > 0])


def _mean(values: Sequence[float]) -> float:
    known = np.array(values)[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")
