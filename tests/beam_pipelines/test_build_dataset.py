"""The whole build, with real programs in the real sandbox, on the runners that this machine has."""

import dataclasses
import json
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pyarrow.parquet
import pytest
from apache_beam.runners.portability import local_job_service
from dask import distributed

from beam_pipelines import build_dataset, export_parquet, storage
from beam_pipelines.report import manifest
from beam_pipelines.runners import beam_runs
from optimrl_jax.jobs.command_line import run_command
from optimrl_jax.jobs.errors import UserError
from tests.beam_pipelines import layouts, planted
from tests.beam_pipelines.corpora import read_rows, run_quietly, write_corpus, write_parquet

ROOT = pathlib.Path(__file__).parents[2]
NAMES = ("a", "b", "c", "d")
# Small problems have noisy durations: what is filterable is decided here by the corpus, not by the host.
FLAGS = ("--source=jsonl", "--calls=2", "--repeats=2", "--min_robust_cv=0", "--test_share=0.25")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    sound = [planted.problem(name) for name in NAMES]
    faulty = [planted.problem("alone", incorrect=()), planted.problem("lies", correct=(planted.WRONG_ANSWER,) * 3)]
    return write_corpus(tmp_path_factory.mktemp("corpus") / "problems.jsonl", [*sound, *faulty])


def build(corpus, output, *more):
    run_quietly(*FLAGS, f"--input={corpus}", f"--output={output}", *more)
    return output


@pytest.fixture(scope="module")
def dataset(corpus, tmp_path_factory):
    return build(corpus, tmp_path_factory.mktemp("built") / "dataset")


def contents(output):
    """The rows of a dataset by id, without what was measured."""
    measured = ("duration_s", "std_s", "robust_cv", "length_r", "measured_under")
    return {
        name: {field: np.asarray(value).tolist() for field, value in row.items() if field not in measured}
        for name, row in read_rows(output).items()
    }


def test_the_dataset_holds_what_survives_and_the_summary_says_why_others_went(dataset):
    assert set(read_rows(dataset)) == {f"planted/{name}" for name in NAMES}
    assert {len(read_rows(dataset, split)) for split in ("rl_train", "rl_test")} == {1, 3}
    summary = json.loads((dataset / "summary.json").read_text())
    reasons = {row["stage"]: row["reasons"] for row in summary["stages"] if row["rejected"]}
    assert reasons == {"labels": {"correct_only": 1}, "validate": {"few_confirmed_correct": 1}}
    assert [row["kept"] for row in summary["stages"]][:3] == [6, 6, 5]
    assert summary["wall_s"] >= summary["sandbox"]["waited_s"] > 0
    assert (dataset / "COMPLETE").exists()
    assert not (dataset / "work").exists()


def test_tests_of_all_kinds_have_durations_of_every_reference(dataset):
    for row in read_rows(dataset).values():
        kinds = row["test_kind"]
        assert {0, 1, 2} == set(kinds.tolist())
        assert row["duration_s"].shape == (len(kinds), len(planted.CORRECT_SUMS))
        assert (row["status"] == 0).all()
        assert (row["duration_s"] > 0).all()
        assert (row["runs"][kinds == 2] == 2).all()
        assert (row["runs"][kinds < 2] == 1).all()
        assert (row["std_s"][kinds == 2] >= 0).all()
        for given, wanted in zip(row["test_input"], row["test_output"], strict=True):
            assert sum(map(int, given.split()[1:])) == int(wanted)


def test_manifest_card_and_traces_say_where_it_comes_from(dataset):
    manifest = json.loads((dataset / "manifest.json").read_text())
    assert manifest["splits"] == {"rl_test": 1, "rl_train": 3}
    assert manifest["options"]["calls"] == 2
    assert manifest["measured_under"][0]["backend"] == "local"
    assert set(manifest["cost_at_paper_scale"]) == {"original", "correctness", "optimization", "total"}
    assert list(manifest["inputs"]) == [manifest["options"]["input"]]
    assert manifest["host"]["pairs"] > 0
    assert "Licences" in (dataset / "README.md").read_text()
    traces = [json.loads(line) for line in (dataset / "traces.jsonl").read_text().splitlines()]
    assert {trace.get("reason", "kept") for trace in traces} == {"kept", "correct_only", "few_confirmed_correct"}
    executed = sum(dict(step["notes"]).get("executions", 0) for trace in traces for step in trace["trace"])
    again = json.loads((dataset / "summary.json").read_text())["sandbox"]["executions"] - executed
    assert again == manifest["host"]["pairs"], "what the drift was measured with is work of the sandbox too"


def test_the_same_command_on_a_complete_dataset_does_nothing_and_another_one_is_refused(corpus, dataset, capsys):
    marker = (dataset / "COMPLETE").stat().st_mtime_ns
    build(corpus, dataset)
    assert "already complete" in capsys.readouterr().err
    assert (dataset / "COMPLETE").stat().st_mtime_ns == marker
    arguments = [*FLAGS, "--trust_programs", f"--input={corpus}", f"--output={dataset}", "--seed=5"]
    assert run_command(build_dataset.main, arguments, name="build_dataset") == 2
    assert "this dataset has other seed" in capsys.readouterr().err


def test_a_dataset_of_other_inputs_under_the_same_name_is_refused(corpus, dataset, tmp_path, capsys):
    copied = shutil.copytree(dataset, tmp_path / "copied")
    changed = write_corpus(tmp_path / "problems.jsonl", [planted.problem("other")])
    options = json.loads((copied / "options.json").read_text()) | {"input": str(changed)}
    (copied / "options.json").write_text(json.dumps(options))
    arguments = [*FLAGS, "--trust_programs", f"--input={changed}", f"--output={copied}"]
    assert run_command(build_dataset.main, arguments, name="build_dataset") == 2
    assert "this dataset was built from other input files" in capsys.readouterr().err


def test_a_build_of_other_options_does_not_touch_the_records_of_a_running_one(corpus, tmp_path):
    options, _ = build_dataset.parse_options([*FLAGS, "--trust_programs", f"--input={corpus}", f"--output={tmp_path}"])
    inputs = {str(corpus): "hash"}
    identity = manifest.identity_of(options, inputs)
    assert manifest.identity_of(dataclasses.replace(options, sandbox_workers=7), inputs) == identity
    assert manifest.identity_of(dataclasses.replace(options, limit_s=9.0), inputs) != identity
    assert manifest.identity_of(options, {str(corpus): "another"}) != identity


def test_what_was_lost_between_source_and_sink_is_an_error():
    with pytest.raises(RuntimeError, match="the source has 3 records, 1 were kept or rejected"):
        build_dataset.require_all([planted.problem()], 3)


@pytest.mark.parametrize("state", ["CANCELLED", "DRAINED", "FAILED", None])
def test_a_runner_that_stopped_before_the_end_writes_no_dataset(state):
    with pytest.raises(UserError, match=f"ended as {state}: expected DONE"):
        beam_runs.require_done(state)


def test_where_nothing_survives_the_reasons_are_kept(tmp_path, capsys):
    corpus = write_corpus(tmp_path / "c.jsonl", [planted.problem("alone", incorrect=())])
    with corpus.open("a") as lines:
        lines.write("{broken\n")
    arguments = [*FLAGS, "--trust_programs", f"--input={corpus}", f"--output={tmp_path / 'd'}"]
    assert run_command(build_dataset.main, arguments, name="build_dataset") == 2
    traces = [json.loads(line) for line in (tmp_path / "d" / "traces.jsonl").read_text().splitlines()]
    assert sorted(line["reason"] for line in traces) == ["correct_only", "not_json"]
    assert json.loads((tmp_path / "d" / "summary.json").read_text())["stages"][0]["kept"] == 1
    assert "not read: c.jsonl:2: not_json" in capsys.readouterr().out


def test_the_console_says_where_records_went(corpus, tmp_path, capsys):
    build(corpus, tmp_path / "d", "--tests_only", "--limit=1")
    assert "other records" not in capsys.readouterr().out
    with (broken := tmp_path / "c.jsonl").open("w") as lines:
        lines.write(corpus.read_text() + "{broken\n")
    build(broken, tmp_path / "e", "--tests_only")
    assert f"where 1 other records went, and why: {tmp_path / 'e' / 'traces.jsonl'}" in capsys.readouterr().out


def test_code_contests_with_generators_from_a_file_become_a_dataset(tmp_path):
    corpus = write_parquet(tmp_path / "a.parquet", [planted.problem(name, generators=()) for name in ("x", "y")])
    generators = tmp_path / "generators.json"
    generators.write_text(json.dumps({"planted/x": [planted.SUM_GENERATOR]}))
    output = tmp_path / "dataset"
    flags = ("--calls=1", "--repeats=1", "--min_robust_cv=0", "--max_original_tests=1", f"--generators={generators}")
    run_quietly("--source=code_contests", f"--input={corpus}", f"--output={output}", *flags)
    (row,) = read_rows(output).values()
    assert row["id"] == b"code_contests/planted/x"
    assert row["test_origin"].tolist()[0] == b"public"
    assert (row["test_kind"] == 0).sum() == 1
    summary = json.loads((output / "summary.json").read_text())
    assert summary["stages"][-3]["reasons"] == {"no_correctness_tests": 1}
    assert "CC BY 4.0" in (output / "README.md").read_text()


def test_a_contest_package_becomes_a_dataset_with_tests_of_a_generator_that_takes_arguments(tmp_path):
    line = "import random, sys\nn, seed = map(int, sys.argv[1:])\nrandom.seed(seed)\nprint(n)\n"
    more = {
        "problem.yaml": "problem_format_version: 2025-09\nname: Sum\n",
        "submissions/accepted/b/main.py": planted.LIST_SUM,
        "generators/g.py": None,
        "generators/line.py": line + "print(*[random.randint(1, 9) for _ in range(n)])\n",
        "generators/generators.yaml": "data:\n- s: line.py 3 {seed}\n- b: line.py 90 {seed}\n",
    }
    layouts.write_files(tmp_path / "in" / "sum", layouts.LATER | more)
    gates = ("--min_correct=2", "--calls=1", "--repeats=1", "--min_robust_cv=0")
    run_quietly("--source=packages", f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", *gates)
    (row,) = read_rows(tmp_path / "out").values()
    assert row["reference_id"].tolist() == [b"accepted/a.py", b"accepted/b"]
    generated = [text.split() for text, kind in zip(row["test_input"], row["test_kind"], strict=True) if kind]
    assert {int(words[0]) for words in generated} == {3, 90}
    assert all(len(words) == 1 + int(words[0]) for words in generated)


def export(dataset, directory, *flags):
    before = signal.getsignal(signal.SIGTERM)
    arguments = [f"--dataset={dataset}", f"--output={directory}", *flags]
    assert run_command(export_parquet.main, arguments, name="export_parquet") == 0
    signal.signal(signal.SIGTERM, before)
    return [pyarrow.parquet.read_table(path).to_pylist() for path in sorted(directory.glob("*.parquet"))]


def test_a_light_export_of_a_finished_dataset_keeps_one_reference_and_no_optimization_tests(dataset, tmp_path):
    full = {row["id"]: row for table in export(dataset, tmp_path / "full") for row in table}
    light = {row["id"]: row for table in export(dataset, tmp_path / "light", "--variant=light") for row in table}
    assert set(light) == set(full)
    for name, row in light.items():
        kept = [k for k, kind in enumerate(full[name]["test_kind"]) if kind != 2]
        assert 0 < len(kept) < len(full[name]["test_kind"])
        assert row["reference_id"] == full[name]["reference_id"][:1]
        assert row["duration_s"] == [full[name]["duration_s"][k][:1] for k in kept]
        assert row["test_input"] == [full[name]["test_input"][k] for k in kept]


def test_a_parquet_export_holds_the_same(dataset, tmp_path):
    tables = export(dataset, tmp_path / "parquet")
    card = (tmp_path / "parquet" / "README.md").read_text()
    assert "path: non_filterable.parquet" in card or "path: rl_train.parquet" in card
    assert card.count("pretty_name") == 1
    exported = {row["id"]: row for table in tables for row in table}
    assert set(exported) == set(read_rows(dataset))
    for name, row in read_rows(dataset).items():
        assert exported[name]["duration_s"] == row["duration_s"].tolist()
        assert exported[name]["test_input"] == [text.decode() for text in row["test_input"]]
        assert exported[name]["statement"] == row["statement"].decode()


def has_equal_rows(part, dataset):
    """Whether a dataset holds two problems, with what another one has of them; rows depend on no other problem."""
    found, whole = contents(part), contents(dataset)
    return len(found) == 2 and found == {name: whole[name] for name in found}


def test_several_processes_build_equal_contents_durations_aside(corpus, dataset, tmp_path):
    flags = ("--limit=2", "--direct_num_workers=2", "--direct_running_mode=multi_processing")
    assert has_equal_rows(build(corpus, tmp_path / "again", *flags), dataset)


def test_a_portable_runner_builds_equal_contents_durations_aside(corpus, dataset, tmp_path):
    server = local_job_service.LocalJobServicer()
    port = server.start_grpc_server(0)
    try:
        flags = ("--runner=PortableRunner", f"--job_endpoint=localhost:{port}", "--environment_type=LOOPBACK")
        assert has_equal_rows(build(corpus, tmp_path / "again", "--limit=2", *flags), dataset)
    finally:
        server.stop()


def kill_a_worker(store, killed):
    """Kills a process of the Dask cluster that a build in this process has started, once some answers are stored."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(answers_of(store)) < 40:
        time.sleep(0.02)
    nannies = distributed.default_client().cluster.workers.values()
    worker = psutil.Process(next(iter(nannies)).pid)
    worker.kill()
    killed.append(worker.pid)


def test_a_dask_cluster_that_loses_a_worker_builds_equal_contents(corpus, dataset, tmp_path):
    output, killed = tmp_path / "again", []
    output.mkdir()
    killer = threading.Thread(target=kill_a_worker, args=(output / "executions.sqlite", killed))
    killer.start()
    build(corpus, output, "--runner=DaskRunner")
    killer.join()
    assert killed
    assert contents(output) == contents(dataset)


def answers_of(store):
    """Stored answers by request, as the sandbox keeps them; none while the file is being made."""
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10) as database:
            return dict(database.execute("SELECT request, answer FROM answers"))
    except sqlite3.OperationalError:
        return {}


def listen_to_interrupts():
    """A shell that starts tests in the background makes them, and all they start, deaf to SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(corpus, output, *, until):
    """Starts a build in a process of its own and returns it when so many of its answers are stored."""
    flags = (*FLAGS, "--trust_programs", f"--input={corpus}", f"--output={output}")
    process = subprocess.Popen(
        [sys.executable, "-m", "beam_pipelines.build_dataset", *flags],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=listen_to_interrupts,
    )
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if len(answers_of(output / "executions.sqlite")) >= until:
            break
        time.sleep(0.02)
    return process


def stopped(process, output, *, number):
    """Sends a build a signal while it executes; exit code and errors."""
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    error = process.communicate()[1].decode()
    assert not psutil.wait_procs(workers, timeout=10)[1], "programs must not outlive the build"
    assert not (output / "COMPLETE").exists()
    return process.returncode, error


def test_a_build_beside_another_is_refused_and_one_interrupted_and_killed_goes_on_to_the_same_dataset(
    corpus, dataset, tmp_path, capsys
):
    output = tmp_path / "again"
    store = output / "executions.sqlite"
    first = started(corpus, output, until=40)
    arguments = [*FLAGS, "--trust_programs", f"--input={corpus}", f"--output={output}", "--limit_s=9"]
    assert run_command(build_dataset.main, arguments, name="build_dataset") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"expected a directory in which no other build runs, found process {first.pid} on " in line
    code, error = stopped(first, output, number=signal.SIGINT)
    assert code == 130
    assert error.strip().splitlines()[-1] == "interrupted: start the same command again to go on"
    assert "Traceback" not in error
    interrupted = answers_of(store)
    second = started(corpus, output, until=len(interrupted) + 20)
    code, _ = stopped(second, output, number=signal.SIGKILL)
    assert code == -signal.SIGKILL
    killed = answers_of(store)
    build(corpus, output)
    after = answers_of(store)
    assert {key: after[key] for key in interrupted | killed} == interrupted | killed, "nothing stored is executed again"
    assert len(after) == len(answers_of(dataset / "executions.sqlite"))
    assert json.loads((output / "options.json").read_text())["limit_s"] == 10
    assert contents(output) == contents(dataset)


def test_a_set_without_solutions_becomes_an_evaluation_split_and_runs_nothing(tmp_path):
    rows = [planted.as_object(planted.problem(f"p{n}", statement=f"Add the numbers of list {n}.")) for n in range(3)]
    path = tmp_path / "set.jsonl"
    path.write_text("".join(json.dumps({**row, "solutions": []}) + "\n" for row in rows))
    output = tmp_path / "dataset"
    about = ("--name=My set", "--version=2.1.0", "--license=cc0-1.0", "--homepage=https://example.org")
    run_quietly("--source=jsonl", f"--input={path}", f"--output={output}", "--tests_only", "--similar=1", *about)
    found = read_rows(output, "evaluation")
    assert set(found) == {"planted/p0", "planted/p1", "planted/p2"}
    assert set(read_rows(output)) == set(found)
    row = found["planted/p0"]
    assert (len(row["test_input"]), row["duration_s"].shape[1], len(row["reference_program"])) == (2, 0, 0)
    assert json.loads((output / "summary.json").read_text())["sandbox"]["executions"] == 0
    (directory,) = (output / "dmc_optim").iterdir()
    info = json.loads((directory / "dataset_info.json").read_text())
    assert (directory.name, info["releaseNotes"]) == ("2.1.0", {"2.1.0": "My set"})
    assert info["redistributionInfo"]["license"] == "cc0-1.0"
    assert info["location"]["urls"] == ["https://example.org"]


def test_a_build_that_stops_after_a_stage_goes_on_from_what_it_executed(tmp_path):
    corpus = write_corpus(tmp_path / "c.jsonl", [planted.problem("x")])
    flags = ("--source=jsonl", f"--input={corpus}", "--calls=1", "--repeats=1", "--trust_programs")
    output = tmp_path / "dataset"
    run_quietly(*flags, f"--output={output}", "--until=validate")
    (problem,) = storage.read_problems(output / "until" / "validate")
    assert [count.stage for count in problem.trace][-1] == "validate"
    assert len(problem.correct) == len(planted.CORRECT_SUMS)
    assert not (output / "COMPLETE").exists()
    executed = answers_of(output / "executions.sqlite")
    assert executed
    run_quietly(*flags, f"--output={output}")
    assert (output / "COMPLETE").exists()
    after = answers_of(output / "executions.sqlite")
    assert {key: after[key] for key in executed} == executed, "what the first command measured is not measured again"
    assert len(after) > len(executed)
    (row,) = read_rows(output).values()
    assert row["reference_id"].tolist() == [one.id.encode() for one in problem.correct]


def test_a_build_that_leaves_its_job_to_the_runner_goes_on_from_the_records_of_the_job(tmp_path, capsys):
    corpus = write_corpus(tmp_path / "c.jsonl", [planted.problem("x")])
    flags = ("--source=jsonl", f"--input={corpus}", "--calls=1", "--repeats=1", f"--output={tmp_path / 'out'}")
    run_quietly(*flags, "--detach")
    assert not (tmp_path / "out" / "COMPLETE").exists()
    executed = answers_of(tmp_path / "out" / "executions.sqlite")
    (record,) = (tmp_path / "out" / "work").glob("*/records/*.json.gz")
    content = record.read_bytes()
    record.unlink()
    assert run_command(build_dataset.main, [*flags, "--trust_programs"], name="build_dataset") == 2
    assert "expected the 1 records of the job that its runner has, found 0; --take_over" in capsys.readouterr().err
    record.write_bytes(content)
    run_quietly(*flags)
    assert len(read_rows(tmp_path / "out")) == 1
    # Of the references, a few are timed once more at the end.
    assert len(answers_of(tmp_path / "out" / "executions.sqlite")) - len(executed) <= len(planted.CORRECT_SUMS)
