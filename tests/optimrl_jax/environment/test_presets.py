"""The trained rows of the paper, by name."""

import csv
import importlib.resources
import operator

import pytest

from optimrl_jax import environment, rewards, settings
from optimrl_jax.environment import presets
from optimrl_jax.environment.paper_results import PRINTED_ROWS
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


def test_rows_answer_to_the_names_that_the_text_uses():
    assert environment.row_named("ranked_p30") == "per_test_top_30"
    assert environment.row_named("abs_filter_0_5s") == environment.row_named("abs_filter_0.5s") == "abs_filter_0.5s"
    assert set(environment.ROW_ALIASES.values()) <= set(environment.PRESETS)


def test_a_misspelt_row_is_answered_with_the_one_that_was_meant():
    with pytest.raises(ValueError, match="did you mean 'ranked_p30'"):
        environment.preset("ranked_p3O")


@pytest.mark.parametrize("model", PRINTED_ROWS)
def test_printed_shares_fall_with_the_percentile_and_rise_with_the_samples(model):
    for name, row in PRINTED_ROWS[model].items():
        assert list(row.pass_at_1) == sorted(row.pass_at_1, reverse=True), name
        assert row.pass_at_10 is None or all(map(operator.gt, row.pass_at_10, row.pass_at_1)), name


def test_every_trained_row_has_its_printed_figures():
    assert set(PRINTED_ROWS["qwen7b"]) == set(environment.PRESETS)
    assert set(PRINTED_ROWS["qwen32b"]) < set(PRINTED_ROWS["cwm32b"]) | {"abs_filter_2s"} < set(environment.PRESETS)
    assert PRINTED_ROWS["qwen7b"]["per_test_top_30"] == (2, (46.2, 31.3, 19.1, 6.0), (67.8, 56.1, 42.7, 18.6))
    assert PRINTED_ROWS["cwm32b"]["abs_2s_blend_binary"].pass_at_1 == (68.7, 48.5, 29.5, 9.2)


def test_an_unknown_row_is_refused():
    with pytest.raises(ValueError, match="row = 'fastest': expected one of standard_rlvr"):
        environment.preset("fastest")
