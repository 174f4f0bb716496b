"""Settings that would not mean what they say are refused in one line, and rows of one name are not one run."""

import importlib
import json
import pathlib

import numpy as np
import pytest

from optimrl_jax import evaluate, settings
from optimrl_jax.arrays import CAP_S, Status
from optimrl_jax.jobs import command_line, files
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.rollout.execution import CandidateRun
from optimrl_jax.rollout.rewarder import Rewarder
from tests.optimrl_jax import records

CONFIG = pathlib.Path(__file__).parents[2] / "configs" / "quickstart.py"
MISTAKES = {
    "evaluation.taus=(200,-5)": "evaluation.taus = (200, -5): expected percentiles in (0, 100]",
    "evaluation.taus=()": "evaluation.taus = (): expected at least one percentile",
    "evaluation.ks=(0,)": "evaluation.ks = (0,): expected whole numbers from 1",
    "evaluation.ks=(40,)": "evaluation.ks = (40,): expected numbers up to evaluation.samples",
}


@pytest.mark.parametrize(("field", "message"), MISTAKES.items(), ids=MISTAKES)
def test_an_evaluation_refuses_scores_that_do_not_exist(field, message, tmp_path, capsys):
    flags = [f"--config={CONFIG}", f"--workdir={tmp_path}", f"--config.{field}", "--config.data.directory=/absent"]
    assert command_line.run_job(evaluate.main, ["evaluate", *flags]) == 2
    assert message in capsys.readouterr().err


def test_numbers_that_are_not_finite_are_null_in_json(tmp_path):
    files.write_json(tmp_path / "summary.json", {"pass@10": {"p30": float("nan")}, "wall_s": np.inf})
    found = json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
    assert found == {"pass@10": {"p30": None}, "wall_s": None}


def rewarder(*, sandbox=None, composition="correctness_only", family="mc_mo"):
    chosen = {"environment": {"family": family}, "reward": {"composition": composition}, "sandbox": sandbox or {}}
    return Rewarder([records.record()], freeze(settings.Settings, chosen))


@pytest.mark.parametrize("composition", ["naive_optimization_linear", "naive_optimization_log", "gated_speedup"])
@pytest.mark.parametrize("family", ["rlvr", "mc"])
def test_a_family_that_runs_no_optimization_test_pays_for_no_seconds_of_them(family, composition):
    with pytest.raises(ValueError, match=f"{composition}': expected a family that runs those tests, not '{family}'"):
        rewarder(family=family, composition=composition)


def test_the_rows_mc_and_mc_with_a_timeout_are_two_runs():
    """mc runs under a problem's own time limit, the other row under the service's cap alone."""
    rows = importlib.import_module("configs.qwen7b")
    families = [rows.get_config(row).environment.family for row in ("mc", "mc_10s_timeout")]
    assert families == ["mc", "mc_tloc"]
    assert [rewarder(family=family).uses_own_limits for family in families] == [True, False]


@pytest.mark.parametrize(("limit_s", "expected"), [(2.0, 0.8), (10.0, 0.0), (60.0, 0.0)])
def test_naive_rewards_count_a_timeout_as_the_limit_that_the_run_had(limit_s, expected):
    """Correct, and late on all three optimization tests: 1 - 2/10, or nothing at the cap."""
    run = CandidateRun(
        np.array([0, 0, *[Status.TIMEOUT] * 3], np.int8), np.array([0.01, 0.01, *[CAP_S] * 3], np.float32)
    )
    judged = rewarder(sandbox={"limit_s": limit_s}, composition="naive_optimization_linear")
    assert judged(0, [run], stream=0, batch=0).reward[0] == pytest.approx(expected)


@pytest.mark.parametrize("seconds", [float("nan"), 0.0])
def test_a_success_without_seconds_is_a_fault_and_never_the_fastest(seconds):
    run = CandidateRun(np.zeros(5, np.int8), np.array([0.01, 0.01, seconds, 0.01, 0.01], np.float32))
    chosen = {"environment": {"family": "qp_ranked"}, "reward": {"composition": "two_gate_binary"}}
    judged = Rewarder([records.record()], freeze(settings.Settings, chosen))(0, [run], stream=0, batch=0)
    assert not judged.is_valid[0]
