"""The trained rows of the paper, by name."""

import csv
import importlib.resources

import pytest

from optimrl_jax import environment, rewards, settings
from optimrl_jax.environment import presets
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.simulator.configurations import Configuration


@pytest.mark.parametrize("name", environment.PRESETS)
def test_every_row_is_a_valid_setting(name):
    row = environment.preset(name)
    chosen = freeze(settings.Settings, {"environment": row.environment, "reward": row.reward})
    environment.build(**vars(chosen.environment))
    assert chosen.reward.composition in rewards.COMPOSITIONS | rewards.NAIVE_COMPOSITIONS
    assert chosen.reward.quality_map in rewards.QUALITY_MAPS


def test_rows_of_each_table():
    assert len(presets.ENVIRONMENT_ROWS) == 26
    assert len(presets.REWARD_ROWS) == 10 + 10 + 3
    assert set(presets.NAIVE_ROWS) == set(rewards.NAIVE_COMPOSITIONS)


def test_the_best_row_of_the_paper():
    row = environment.preset("per_test_top_30")
    assert row.environment == {"family": "qar_ranked", "threshold": 0.3}
    assert row.reward == {"composition": "collapsed_binary"}


def test_rows_are_the_ones_whose_online_scores_are_shipped():
    rows = [row.environment for row in presets.ENVIRONMENT_ROWS.values()]
    trained = set()
    for row in rows:
        family = environment.FAMILIES[row["family"]]
        values = {"bound": "max"} | row
        if set(family.grid) <= set(values):
            trained.add(Configuration(family.name, tuple((name, values[name]) for name in family.grid)).name)
    table = importlib.resources.files("optimrl_jax.simulator").joinpath("online_scores.csv")
    with table.open() as lines:
        shipped = {line["configuration"] for line in csv.DictReader(lines)}
    assert shipped <= trained


def test_an_unknown_row_is_refused():
    with pytest.raises(ValueError, match="preset = 'fastest': expected one of standard_rlvr"):
        environment.preset("fastest")
