"""Rewards used from somebody else's trainer: NumPy in, one number for each program out, and nothing heavy imported."""

import pathlib
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

from optimrl_jax import environment, rewards
from optimrl_jax.arrays import Execution, Outcome, References, Tests
from tests.benchmarks import rewards as benchmark

GUIDE = pathlib.Path(rewards.__file__).with_name("README.md")


def test_importing_environments_and_rewards_brings_no_learner_along():
    program = "import sys; from optimrl_jax import environment, rewards; print(*sorted(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name.split(".")[0] for name in answer.stdout.split()}
    assert not loaded & {
        "flax",
        "optax",
        "orbax",
        "grain",
        "tensorflow_datasets",
        "apache_beam",
        "scipy.stats",
        "httpx",
    }
    assert not {"optimrl_jax.grpo", "optimrl_jax.training"} & set(answer.stdout.split())


def test_numpy_arrays_go_in():
    tests = Tests(np.array([0, 2, 2]), np.array([4, 4, 4]), np.ones(3, bool))
    references = References(np.array([[0.1, 0.2]] * 3), np.zeros((3, 2)), np.ones((3, 2), bool))
    execution = Execution(np.array([[0, 0, 0], [0, 0, 2]]), np.array([[0.05] * 3, [0.3] * 3]))
    environment.check(tests, references, execution)
    found = rewards.judge_and_reward(
        environment.build("qp_ranked"), tests, references, execution, composition="two_gate_graded"
    )
    assert np.asarray(found.reward).tolist() == [1.0, -1.0]


@pytest.mark.parametrize("composition", [*rewards.COMPOSITIONS, *rewards.TIMED_COMPOSITIONS])
def test_compiled_batched_and_eager_rewards_agree(composition):
    arrays = benchmark.problem(5, 4, 3, shape=(8, 4), seed=0)
    env = environment.build("qar_ranked")

    def reward(*parts):
        return rewards.judge_and_reward(env, *parts, composition=composition).reward

    eager = np.asarray(reward(*arrays))
    np.testing.assert_allclose(jax.jit(reward)(*arrays), eager, atol=1e-6)
    batched = jax.vmap(reward)(*jax.tree.map(lambda leaf: np.stack([leaf, leaf]), arrays))
    np.testing.assert_allclose(batched, np.stack([eager, eager]), atol=1e-6)


def test_the_guides_programs_run():
    """Every Python block of the guide, one after the other in one namespace, as a reader would paste them."""
    namespace = {}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), namespace)


def test_the_guides_corner_table_is_true():
    rows = re.findall(r"^\| `(\w+)` \| `?([\w-]+)`? \|(.*)\|$", GUIDE.read_text(), re.MULTILINE)
    named = [row for row in rows if row[0] in rewards.COMPOSITIONS]
    assert {row[0] for row in named} == {name for name in rewards.COMPOSITIONS if not name.startswith("multitask")}
    corners = {"wrong": (0, 0, 0, 1.0), "slow": (1, 1, 0, 1.0), "half": (1, 1, 0, 0.5), "fast": (1, 1, 1, 0.0)}
    corners |= {"wrong_fast": (0, 0, 1, 0.0)}
    for composition, quality_map, cells in named:
        told = [float(cell) for cell in cells.split("|")]
        c, c_strict, g, q = (np.array(column, np.float32) for column in zip(*corners.values(), strict=True))
        outcome = Outcome(c, c_strict, g, q, np.ones(5, bool))
        options = {"quality_map": quality_map} if quality_map in rewards.QUALITY_MAPS else {}
        found = np.asarray(rewards.reward(outcome, composition, **options))
        np.testing.assert_allclose(found, told, atol=0.005, err_msg=composition)


def test_the_benchmark_reports_its_figures():
    found = benchmark.figures(problems=2, repeats=1, families=("mc", "qp_ranked"))
    assert set(found["reward_ms"]) == {"mc", "qp_ranked"}
    assert all(value > 0 for value in found["reward_ms"].values())
    assert 1 <= found["compilations"] <= 2
