"""What the benchmark of the learner counts: operations, bytes and exponents by hand, and figures of a small run."""

import dataclasses

import numpy as np

from optimrl_jax.settings import Network
from tests.benchmarks import learner, model_costs
from tests.optimrl_jax.grpo.groups import SETTINGS
from tests.optimrl_jax.model import tiny

SHAPE = Network(width=4, layers=2, heads=2, kv_heads=1, head_width=3, mlp_width=5, vocabulary=7)


def test_bytes_of_a_decoding_step_as_worked_by_hand():
    # 292 parameters of matrices; keys and values of 2 layers, 1 head of 3 features for 6 x 10 and 2 x 7 tokens.
    found = model_costs.decode_bytes(SHAPE, rows=6, own=10, prompts=2, prompt_tokens=7)
    assert found == 4 * (292 + 2 * 2 * 3 * (10 * 6 + 7 * 2))


def test_growth_of_a_square_is_two():
    assert np.isclose(model_costs.growth_exponent([2, 4, 8], [12, 48, 192]), 2)


def test_figures_of_a_small_run_are_complete_and_possible():
    found = learner.rates(dataclasses.replace(SETTINGS, model=tiny.SETTINGS), repeats=1)
    assert all(value > 0 for value in found.values())
    assert found["mfu"] < 1
    assert {"generate_tokens_per_s", "update_tokens_per_s", "bandwidth_share", "peak_memory_bytes"} <= set(found)


def test_an_absent_environment_gives_no_ratio_and_says_how_to_make_it(tmp_path, capsys):
    assert learner.trl_rollout_ratio(tmp_path) is None
    assert "python -m tests.benchmarks.trl.setup" in capsys.readouterr().err
