"""The main job, small and whole, through its commands: dataset, SFT, GRPO, a kill in the middle, evaluation.

Every command is a process of its own, as a user starts it.
"""

import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optimrl_jax import judge
from optimrl_jax.data import dataset
from optimrl_jax.jobs import command_line
from optimrl_jax.rollout import journal
from optimrl_jax.training import checkpoints, workdir
from optimrl_jax.training.workdir import JOB_FILE

ROOT = pathlib.Path(__file__).parents[1]
CONFIG = """
from configs import base

def get_config(row=""):
    config = base.get_config()
    config.model.width, config.model.layers, config.model.mlp_width, config.model.vocabulary = 32, 2, 64, 1024
    config.data.prompt_tokens = config.data.completion_tokens = 96
    config.data.directory = "dataset"
    config.sft.steps, config.sft.batch, config.sft.warmup_steps = 40, 8, 5
    config.sft.checkpoint_every = 20
    config.grpo.init_from = "sft"
    config.data.learned_references = "earlier"
    config.grpo.steps, config.grpo.problems, config.grpo.rollouts, config.grpo.checkpoint_every = 6, 2, 4, 2
    config.sandbox.store = "executions.sqlite"
    config.evaluation.policies = (("sft", "sft"), ("grpo", "whole"))
    config.evaluation.samples = 4
    config.evaluation.ks = (1, 2)
    config.evaluation.every = 6
    return config
"""
START_S = 240


def start(workdir, module, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, cwd=workdir, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process):
    text = process.communicate(timeout=START_S)[0].decode()
    assert process.returncode == 0, text
    return text


def command(workdir, module, *arguments):
    return finish(start(workdir, module, *arguments))


def write_earlier_run(run):
    """Rollouts that solved every problem as its first reference does, in a tenth of a millisecond a test."""
    rows = []
    for place, record in enumerate(dataset.load_records(str(run / "dataset"), "rl_train")):
        tests = len(record.test_kind)
        known = {
            "problem": record.id, "batch": 0, "place": place, "sample": 0, "written_ns": 1, "is_valid": True,
            "is_correct": True, "program": f"{record.reference_program[0]}\n# learned", "status": [0] * tests,
            "duration_s": [1e-4] * tests,
        }  # fmt: skip
        rows.append(dict.fromkeys(journal.SCHEMA.names) | known)
    (run / "earlier" / journal.FOLDER).mkdir(parents=True)
    shard = run / "earlier" / journal.FOLDER / "0.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=journal.SCHEMA), shard)
    (run / "earlier" / JOB_FILE).write_text(json.dumps({"job": "train", "settings": {}}))
    return len(rows)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A directory with a small dataset, an SFT policy and an uninterrupted GRPO run named `whole`.

    Runs rank against humans and the programs of a run named `earlier`.
    """
    workdir = tmp_path_factory.mktemp("run")
    (workdir / "config.py").write_text(CONFIG)
    build = ("--source=mini", "--output=dataset", "--limit=5", "--calls=1", "--repeats=1", "--test_share=0.4")
    command(workdir, "beam_pipelines.build_dataset", *build, "--min_robust_cv=0")
    command(workdir, "optimrl_jax.sft", "--config=config.py", "--workdir=sft")
    solved = write_earlier_run(workdir)
    log = command(workdir, "optimrl_jax.train", "--config=config.py", "--workdir=whole")
    assert f"earlier: learned references for {solved} of {solved} problems" in log
    return workdir


def parameters(workdir):
    return jax.tree.leaves(checkpoints.load_policy(workdir).params)


def assert_equal_bit_for_bit(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_training_moves_the_policy_and_reports_every_step(run):
    before, after = parameters(run / "sft"), parameters(run / "whole")
    rows = [json.loads(line) for line in (run / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(7))
    assert {"reward", "correct_share", "fast_share", "faults", "staleness", "zero_advantage_share"} <= rows[0].keys()
    assert json.loads((run / "whole" / "summary.json").read_text())["wall_s"] > 0
    if any(row.get("updated") for row in rows):
        assert any((np.asarray(a) != np.asarray(b)).any() for a, b in zip(before, after, strict=True))


def test_two_runs_on_stored_durations_agree_bit_for_bit(run):
    command(run, "optimrl_jax.train", "--config=config.py", "--workdir=again")
    assert_equal_bit_for_bit(parameters(run / "whole"), parameters(run / "again"))


def test_a_killed_run_goes_on_and_ends_where_an_uninterrupted_one_does(run):
    job = ("optimrl_jax.train", "--config=config.py", "--workdir=killed")
    process = start(run, *job)
    deadline_s = time.monotonic() + START_S
    folder = run / "killed" / checkpoints.FOLDER
    while process.poll() is None and not any(path.name.isdigit() for path in folder.glob("*")):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "going on from the checkpoint" in command(run, *job)
    assert_equal_bit_for_bit(parameters(run / "whole"), parameters(run / "killed"))
    steps = [json.loads(line)["step"] for line in (run / "killed" / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(7))


def test_evaluation_reports_both_policies_and_replays_without_running_anything(run):
    first = command(run, "optimrl_jax.evaluate", "--config=config.py", "--workdir=.")
    assert "pass@1" in first
    summary = json.loads((run / "summary.json").read_text())
    for policy in ("sft", "grpo"):
        assert set(summary["pass@1"][policy]) == {"p100", "p50", "p30", "p10"}
        for tau, (low, high) in summary["interval"][policy].items():
            assert 0 <= low <= summary["pass@1"][policy][tau] <= high <= 1
    assert set(summary["wall_s"]) == {"dataset", "sft", "grpo", "evaluation"}
    assert (run / "evaluation" / "learning_curve_grpo.png").stat().st_size > 1000
    *_, last = [json.loads(line) for line in (run / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert last["held_out/pass_at_2_p100"] == summary["pass@2"]["grpo"]["p100"]
    again = command(run, "optimrl_jax.evaluate", "--config=config.py", "--workdir=.")
    assert "replaying the executions stored" in again
    assert json.loads((run / "summary.json").read_text())["pass@1"] == summary["pass@1"]


def test_a_study_does_what_is_missing_and_reports_on_the_records(run):
    """Its dataset, start and one row are there already, so that the shared timing pass alone is left."""
    study = run / "study"
    for source, target in (("dataset", "dataset"), ("sft", "seed0/sft"), ("whole", "seed0/per_test_top_30")):
        shutil.copytree(run / source, study / target)
    flags = ("--config=config.py", "--output=study", "--seeds=1", "--rows=per_test_top_30")
    said = command(run, "optimrl_jax.study", *flags)
    assert "job 1 of 1: optimrl_jax.evaluate -> study/seed0" in said
    summary = json.loads((study / "summary.json").read_text())
    assert summary["command"] == " ".join(("python -m optimrl_jax.study", *flags))
    assert set(summary["scores"]["pass@1 p100"]) == {"sft", "per_test_top_30"}
    assert len(summary["claims"]) == 2
    assert "job" not in command(run, "optimrl_jax.study", *flags)


def test_programs_from_anywhere_are_judged_in_their_order(run, monkeypatch):
    monkeypatch.chdir(run)
    record = dataset.load_records("dataset", "rl_train")[0]
    programs = ["print(", record.reference_program[0], "print('no answer')"]
    lines = [{"problem": record.id, "program": program, "name": n} for n, program in enumerate(programs)]
    pathlib.Path("programs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    job = ["judge", "--config=config.py", "--workdir=judged", "--programs=programs.jsonl"]
    assert command_line.run_job(judge.main, job, options=judge.OPTIONS) == 0
    judged = [json.loads(line) for line in pathlib.Path("judged/judged.jsonl").read_text().splitlines()]
    assert [(row["name"], row["is_correct"]) for row in judged] == [(0, False), (1, True), (2, False)]
    assert judged[1]["reward"] > judged[0]["reward"] == judged[2]["reward"]
    assert 0 <= judged[1]["percentile"] <= 1
    assert (judged[0]["percentile"], set(judged[0]["status"])) == (None, {"failure"})
    summary = json.loads(pathlib.Path("judged/summary.json").read_text())
    assert (summary["programs"], summary["faulted"], summary["correct_share"]) == (3, 0, pytest.approx(1 / 3))


MISTAKES = [
    ("train", "data.directory=absent", "data.directory = 'absent': expected a directory"),
    ("train", "data.directory=", "data.directory = '"),
    ("train", "data.train_split=dev", "data.train_split = 'dev': expected one of"),
    ("train", "data.prompt_tokens=1", "data.prompt_tokens = 1: expected at least"),
    ("train", "data.learned_references=absent", "data.learned_references = 'absent': expected the workdir of a run"),
    ("train", "data.prompt_function=ask", "data.prompt_function = 'ask': expected FILE.py:FUNCTION"),
    ("train", "grpo.init_from=", "grpo.init_from = '': expected the workdir of an SFT job"),
    ("train", "grpo.init_from=absent", "absent"),
    ("train", "grpo.batch_tokens=1", "grpo.batch_tokens = 1: expected at least"),
    ("train", "data.row_tokens=1", "data.row_tokens = 1: expected"),
    ("train", "environment.family=fast", "environment.family = 'fast': expected one of"),
    ("train", "reward.composition=sum", "reward.composition = 'sum': expected one of"),
    ("train", "reward.quality_map=steep", "reward.quality_map = 'steep': expected one of"),
    ("train", "noise.service=broken", "noise.service = 'broken': expected one of"),
    ("train", "sandbox.address=telnet", "sandbox.address = 'telnet'"),
    ("train", "sandbox.store=.", "sandbox.store = '.': expected a file"),
    ("train", "processes.count=2", "processes.coordinator = '': expected host:port"),
    ("train", "mesh.tensor=1000000000", "mesh = "),
    ("train", "metrics.sinks=('paper',)", "metrics.sinks = 'paper': expected"),
    ("sft", "sft.steps=-1", "sft.steps = -1: expected a positive number"),
    ("sft", "sft.init_from=absent", "absent"),
    ("sft", "sft.mix=(('absent',1.0),)", "absent"),
    ("sft", "sft.mix=(('dataset:dev',1.0),)", "sft.mix = 'dev': expected one of"),
    ("sft", "mesh.fsdp=64", "mesh = "),
    ("sft", "model.heads=3", "model.heads = 3: expected a multiple of model.kv_heads = 2"),
    ("evaluate", "evaluation.ks=(9,)", "evaluation.ks = (9,): expected numbers up to"),
    ("evaluate", "evaluatoin.samples=3", "evaluatoin"),
    ("evaluate", "evaluation.policies=(('a/b','sft'),)", "'a/b': expected a name without '/'"),
    ("evaluate", "evaluation.policies=(('a','sft@x'),)", "evaluation.policies: 'sft@x': expected a step after @"),
    ("evaluate", "evaluation.policies=(('a','absent'),)", "absent"),
    ("evaluate", "data.test_split=dev", "data.test_split = 'dev': expected one of"),
    ("evaluate", "evaluation.benchmark=absent", "absent"),
    ("serve", "serve.weights=absent", "absent"),
    ("serve", "serve.port=65536", "serve.port = 65536: expected a port"),
    ("judge", "programs=config.py", "config.py:2: expected an object with the strings problem and program"),
    ("judge", "programs=", "--programs: expected a file"),
    ("actor", "learner=", "--learner = '': expected tcp://host:port"),
]


@pytest.mark.parametrize(("module", "flag", "message"), MISTAKES)
def test_a_mistake_ends_a_job_with_one_line_and_exit_code_2(run, module, flag, message, monkeypatch, capsys):
    """In this process, and before anything is compiled; the cache of compiled programs stays that of the tests."""
    monkeypatch.chdir(run)
    monkeypatch.setattr(workdir, "reuse_compiled_programs", lambda _: None)
    job = importlib.import_module(f"optimrl_jax.{module}")
    options = getattr(job, "OPTIONS", {})
    flag = f"--{flag}" if flag.partition("=")[0] in options else f"--config.{flag}"
    command = [module, "--config=config.py", "--workdir=mistake", flag]
    assert command_line.run_job(job.main, command, options=options) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert message in said.splitlines()[-1]
