"""What the pipeline promises, measured: layouts, resumption, the store, Dask, accounting; see `benchmarks.pipeline`."""

import contextlib
import itertools
import json
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import time

import numpy as np

from beam_pipelines import build_dataset, pipeline
from beam_pipelines.records import Problem
from beam_pipelines.runners import outputs
from sandbox.protocol import RunRequest, RunResult, TestResult, Verdict
from sandbox.service.store import Store
from tests.beam_pipelines.corpora import read_records, read_rows
from tests.beam_pipelines.layouts import write_layout

STORED_ANSWERS = 20_000
KILLS = 10
SMALL_BUILD = ("--source=mini", "--limit=3", "--calls=1", "--repeats=1", "--min_robust_cv=0")
MEASURED = ("duration_s", "std_s", "robust_cv", "length_r", "measured_under")


def layouts_read(root: pathlib.Path) -> list[str]:
    """The sources that read a problem in their publisher's layout."""
    found = ["mini"]
    for source in pipeline.SOURCES:
        if source != "mini":
            (root / source).mkdir(parents=True)
            records = read_records(source, input=str(write_layout(source, root / source)))
            found += [source] if records and all(isinstance(record, Problem) for record in records) else []
    return found


def resumed_executions(root: pathlib.Path) -> int:
    """Executions that a build makes although an earlier one, whose store it is given, made all of them."""
    first, second = root / "first", root / "second"
    build_dataset.main([*SMALL_BUILD, f"--output={first}"])
    second.mkdir()
    shutil.copy(first / outputs.STORE, second)
    before = count_answers(second)
    build_dataset.main([*SMALL_BUILD, f"--output={second}"])
    return count_answers(second) - before


def killed_build_equal(root: pathlib.Path, *, kills: int = KILLS) -> bool:
    """Whether builds that are killed at random moments, and started again each time, end bit for bit as another one.

    All have the same store, so that durations come from there; the undisturbed one tells how long a build takes. A
    build that ends before its moment is compared, and another one takes its place.
    """
    origin, undisturbed, disturbed = (root / name for name in ("origin", "undisturbed", "disturbed"))
    build_dataset.main([*SMALL_BUILD, f"--output={origin}"])
    start = time.monotonic()
    started_with(origin, undisturbed).wait()
    wall_s, draw, equal = time.monotonic() - start, random.Random(0), []
    while kills:
        process = started_with(origin, disturbed)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0, wall_s))
        if process.poll() is None:
            process.kill()
            process.wait()
            kills -= 1
        else:
            equal.append(are_equal(undisturbed, disturbed))
            shutil.rmtree(disturbed)
    started_with(origin, disturbed).wait()
    return all([*equal, are_equal(undisturbed, disturbed)])


def started_with(origin: pathlib.Path, output: pathlib.Path) -> subprocess.Popen:
    """A small build in a process of its own, with the store of another one where it has none yet."""
    if not output.exists():
        output.mkdir()
        shutil.copy(origin / outputs.STORE, output)
    command = [sys.executable, "-m", "beam_pipelines.build_dataset", *SMALL_BUILD, f"--output={output}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def are_equal(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Whether two finished datasets hold the same bits."""
    return all(exact(one, split) == exact(other, split) for split in ("rl_train", "rl_test"))


def exact(output: pathlib.Path, split: str) -> dict[str, dict[str, tuple[str, bytes]]]:
    """All values of a split by id, bit for bit; files may hold equal examples with their fields in another order."""
    arrays = {name: {f: np.asarray(v) for f, v in row.items()} for name, row in read_rows(output, split).items()}
    return {
        name: {
            field: (value.dtype.str, repr(value.tolist()).encode() if value.dtype == object else value.tobytes())
            for field, value in row.items()
        }
        for name, row in arrays.items()
    }


def problems_accounted_for(output: pathlib.Path) -> bool:
    """Whether what each stage of a build kept and rejected is what the stage before it had kept."""
    rows = json.loads((output / "summary.json").read_text())["stages"]
    has_all = all(before["kept"] == after["kept"] + after["rejected"] for before, after in itertools.pairwise(rows))
    return has_all and sum(json.loads((output / "summary.json").read_text())["splits"].values()) == rows[-1]["kept"]


def store_answers_per_s(root: pathlib.Path, *, answers: int = STORED_ANSWERS) -> float:
    """Answers a second that a store of this many gives back, in the order in which they were put there."""
    store = Store(root / "answers.sqlite")
    requests = [RunRequest(f"program {n}", "0" * 64) for n in range(answers)]
    for request in requests:
        store.put(RunResult(request.sha256, (TestResult(0, Verdict.SUCCESS, 0.1),), {"host": "h"}))
    start = time.monotonic()
    missing = sum(store.get(request) is None for request in requests)
    wall_s = time.monotonic() - start
    store.close()
    return 0.0 if missing else answers / wall_s


def two_worker_dask_equal(root: pathlib.Path) -> bool:
    """Whether two worker processes of a Dask cluster build the same contents as one process, durations aside."""
    from dask import distributed

    build_dataset.main([*SMALL_BUILD, f"--output={root / 'one'}"])
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = f"--dask_client_address={cluster.scheduler_address}"
        runner = ("--runner=DaskRunner", address, "--sandbox_workers=1")
        build_dataset.main([*SMALL_BUILD, f"--output={root / 'two'}", *runner])
    return contents(root / "one") == contents(root / "two")


def contents(output: pathlib.Path) -> dict[str, dict[str, object]]:
    """The rows of a dataset by id, without what was measured."""
    return {
        name: {field: np.asarray(value).tolist() for field, value in row.items() if field not in MEASURED}
        for name, row in read_rows(output).items()
    }


def count_answers(output: pathlib.Path) -> int:
    """Answers in the store of an output directory."""
    with sqlite3.connect(output / outputs.STORE) as database:
        return database.execute("SELECT COUNT(*) FROM answers").fetchone()[0]
