"""What `analyze` says to a mistake or an interrupt, and which checkpoints make a pair."""

import dataclasses
import types

import pytest

from optimrl_jax import analyze
from optimrl_jax.analysis.score_sections import checkpoint_pairs
from optimrl_jax.analysis.study import run_labels, stated_difficulty
from optimrl_jax.evaluation import records
from optimrl_jax.jobs.errors import EXIT_USER_ERROR
from tests.optimrl_jax.analysis import planted


@pytest.fixture
def stored(tmp_path):
    """Directories with records, without any, and with records of no policy."""
    for name in ("whole", "empty", "hollow"):
        (tmp_path / name).mkdir()
    found = planted.evaluation()
    records.write_evaluation(tmp_path / "whole", found)
    records.write_evaluation(tmp_path / "hollow", dataclasses.replace(found, samples=[], facts={}))
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--records={}/absent"], "--records = '{}/absent': expected an existing directory"),
        (["--records={}/whole,{}/absent"], "--records = '{}/absent': expected an existing directory"),
        (["--records=,"], "--records = ',': expected directories that evaluations wrote"),
        (["--records={}/empty"], "{}/empty/records.parquet: expected stored evaluation records"),
        (["--records={}/hollow"], "{}/hollow: expected stored evaluation records (there are no samples in them)"),
        (["--records={}/whole", "--runs={}/gone"], "--runs = '{}/gone': expected an existing directory"),
        (["--records={}/whole", "--baseline=nobody"], "--baseline = 'nobody': expected one of base, fast"),
        (["--records={}/whole", "--output={}/whole/records.parquet"], "expected a directory that can be made"),
    ],
)
def test_a_mistake_is_one_line(stored, capsys, flags, message):
    named = [flag.replace("{}", str(stored)) for flag in flags]
    assert analyze.main([f"--output={stored / 'page'}", *named]) == EXIT_USER_ERROR
    said = capsys.readouterr().err
    assert message.replace("{}", str(stored)) in said
    assert said.startswith("analyze: ")
    assert said.count("\n") == 1


def test_an_interrupt_is_one_line_and_leaves_no_page(stored, capsys, monkeypatch):
    def interrupted(study):
        raise KeyboardInterrupt

    monkeypatch.setattr(analyze, "SECTIONS", {"overview": analyze.SECTIONS["overview"], "scores": interrupted})
    assert analyze.main([f"--records={stored / 'whole'}", f"--output={stored / 'page'}"]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted: start the same command again to go on"
    assert not (stored / "page" / "index.html").exists()


def test_a_checkpoint_that_two_passes_timed_is_no_pair_of_checkpoints():
    sources = (("sft@320", 320), ("sft@320", 320), ("grpo@6", 6), ("grpo@12", 12))
    policies = [types.SimpleNamespace(facts={"source": source, "step": step}) for source, step in sources]
    assert checkpoint_pairs(types.SimpleNamespace(policies=policies)) == [(policies[2], policies[3])]


def test_runs_are_called_by_as_much_of_their_paths_as_tells_them_apart():
    runs = ["a/seed0/fast", "a/seed1/fast", "a/seed0/slow", "b/grpo", "."]
    assert list(run_labels(runs).values()) == ["seed0/fast", "seed1/fast", "slow", "b/grpo", "."]
    assert run_labels(["x/one/grpo", "y/one/grpo"]) == {"x/one/grpo": "x/one/grpo", "y/one/grpo": "y/one/grpo"}


def test_a_difficulty_of_zero_is_none():
    problem = planted.problems()[0]
    assert stated_difficulty(problem) == "1"
    assert stated_difficulty(dataclasses.replace(problem, difficulty=0)) == "unknown"
