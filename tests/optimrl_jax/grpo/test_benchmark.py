"""What the benchmark of the learner counts: operations, bytes and exponents by hand, and figures of a small run."""

import dataclasses
import json
import sys

import numpy as np

from optimrl_jax.settings import Network
from tests.benchmarks import learner, model_costs
from tests.benchmarks.rivals import compare, setup
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


def test_absent_environments_give_no_ratios_and_say_how_to_make_them(tmp_path, capsys):
    found = compare.rollout_ratios({rival: tmp_path / rival for rival in setup.RIVALS})
    names = [f"{rival}_rollout_ratio{suffix}" for suffix in compare.SHAPES for rival in ("trl", "tunix")]
    assert found == dict.fromkeys(names)
    said = capsys.readouterr().err
    assert all(f"python -m tests.benchmarks.rivals.setup {rival}" in said for rival in ("trl", "tunix"))


def test_our_side_of_the_comparison_takes_turns_until_its_input_ends():
    shape = compare.SHORT_PROMPTS | {"problems": 2, "rollouts": 2, "completion_tokens": 8, "attention_block": 8}
    shape["model"] = shape["model"] | {"layers": 1, "vocabulary": 64, "width": 16, "mlp_width": 16}
    command = [sys.executable, "-m", "tests.benchmarks.rivals.ours", json.dumps(shape)]
    with compare.started(command, shape) as side:
        seconds = [compare.seconds_of(side) for _ in range(2)]
        side.stdin.close()
        assert (side.stdout.read(), side.wait()) == ("", 0)
    assert all(value > 0 for value in seconds)
