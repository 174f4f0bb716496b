"""Edge: the judge's job: programs from anywhere, run on the dataset's tests, judged by a configuration's environment.

`python -m optimrl_jax.judge --config=configs/X.py --workdir=W --programs=P.jsonl`. Each line of the file is an object
with `problem`, the id of a problem of the dataset, and `program`; what else it holds is passed through. Writes
`judged.jsonl`, one line a program in the same order, and `summary.json`.
"""

import hashlib
import json
import logging
import pathlib
import statistics
import sys
import time
from collections.abc import Sequence

import numpy as np
import rich.table
from jaxtyping import Float

from optimrl_jax import arrays
from optimrl_jax.data import dataset
from optimrl_jax.evaluation import plots, replay, timing_pass
from optimrl_jax.evaluation import records as evaluation_records
from optimrl_jax.jobs import files
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.jobs.command_line import Job, run_job
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.locks import locked_directory
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.rollout import execution, rewarder
from optimrl_jax.settings import DataSettings, Settings

_LOG = logging.getLogger(__name__)
OPTIONS = {"programs": "JSON Lines: problem and program"}
ALL_KINDS = frozenset(arrays.TestKind)
SHARES = ("correct", "fast")


def main(job: Job) -> None:
    """Run and judge every program of `--programs`, and write what each earned.

    Raises:
      UserError: if something named does not exist or does not fit, or another job is at work in the workdir.
    """
    with locked_directory(job.workdir, field="--workdir"):
        _judge(job)


def _judge(job: Job) -> None:
    started_s = time.monotonic()
    settings = job.settings
    rows = _rows(job.options["programs"])
    records = _asked_for(rows, settings.data)
    try:
        judge = rewarder.Rewarder(records, settings)
    except ValueError as error:
        raise UserError(str(error)) from None
    place = {record.id: index for index, record in enumerate(records)}
    attempts = [(records[place[row["problem"]]], row["program"]) for row in rows]
    current = timing_pass.enter_pass(job.workdir, _question(attempts, settings))
    pass_store = current.store if settings.sandbox.reuse == "always" else ""
    with execution.connect_sandbox(settings.sandbox, pass_store=pass_store) as client:
        executor = execution.Executor(client, settings.sandbox)
        with JobProgress("judged programs", len(attempts)) as progress:
            # Whatever the reward reads, percentiles are places among stored references.
            runs = executor.execute(attempts, kinds=ALL_KINDS, reads_references=True, on_result=progress.advance_to)
    lines = _lines(rows, runs, records, rewarder_of_run=judge, settings=settings)
    files.write_text(job.workdir / "judged.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    timing_pass.finish_pass(current)
    _summarize(job, lines, wall_s=time.monotonic() - started_s)


def _lines(
    rows: Sequence[dict],
    runs: Sequence[execution.CandidateRun],
    records: Sequence[dataset.ProblemRecord],
    *,
    rewarder_of_run: rewarder.Rewarder,
    settings: Settings,
) -> list[dict[str, object]]:
    """Judge each program and list what it earned, in the order of the file."""
    lines: list[dict[str, object]] = [{} for _ in rows]
    for place, record in enumerate(records):
        members = [index for index, row in enumerate(rows) if row["problem"] == record.id]
        of_problem = [runs[index] for index in members]
        earned = rewarder_of_run(place, of_problem, stream=0, batch=0)
        percentiles = _percentiles(record, of_problem, settings)
        for n, index in enumerate(members):
            lines[index] = rows[index] | _line(earned, n, runs[index], percentile=float(percentiles[n]))
    return lines


def _question(attempts: Sequence[tuple[dataset.ProblemRecord, str]], settings: Settings) -> str:
    """Hash what a pass of this job times: programs, tests and measurement."""
    asked = {record.id: record for record, _ in attempts}
    content = {name: evaluation_records.content_sha256(record) for name, record in asked.items()}
    question = [[(record.id, program) for record, program in attempts], content, thaw(settings.sandbox)]
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def _rows(path: str) -> list[dict]:
    """Read the lines of the file; raise UserError naming the first that does not fit."""
    if not path:
        raise UserError("--programs: expected a file of JSON Lines with problem and program")
    try:
        # Not `splitlines`: U+2028 and its like are no ends of lines in JSON Lines.
        lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--programs = {path!r}: expected a readable file ({error})") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("problem", "program")):
            raise UserError(f"{path}:{number}: expected an object with the strings problem and program")
        rows.append(row)
    if not rows:
        raise UserError(f"{path}: expected at least one line")
    return rows


def _asked_for(rows: Sequence[dict], data: DataSettings) -> list[dataset.ProblemRecord]:
    """Load the problems of the rows, each once; raise UserError for one that neither split has."""
    splits = {data.test_split: "data.test_split", data.train_split: "data.train_split"}
    known = {
        record.id: record
        for split, field in splits.items()
        for record in dataset.load_records(data.directory, split, field=field)
    }
    for number, row in enumerate(rows, start=1):
        if row["problem"] not in known:
            raise UserError(f"line {number}: problem = {row['problem']!r}: expected one of {data.directory}")
    return [known[name] for name in dict.fromkeys(row["problem"] for row in rows)]


def _percentiles(
    record: dataset.ProblemRecord, runs: Sequence[execution.CandidateRun], settings: Settings
) -> Float[np.ndarray, " r"]:
    """Rank each program among the stored references, 0 the fastest, under the calibration that its reward met."""
    gamma = arrays.AffineMap(settings.environment.alpha, settings.environment.beta_s)
    groups = replay.group_problems([record], [record.duration_s])
    places = np.zeros(len(runs), np.float32)
    for drift in dict.fromkeys(run.drift for run in runs):
        env = replay.ranking_environment(drift.after(gamma), ties=settings.environment.ties)
        outcome = replay.judge_groups([env], groups, [arrays.Execution.stack(runs)])
        is_under = np.array([run.drift == drift for run in runs])
        places[is_under] = outcome.q[0, 0, is_under]
    return places


def _line(
    earned: rewarder.RewardedGroup, n: int, run: execution.CandidateRun, *, percentile: float
) -> dict[str, object]:
    is_valid, is_correct = bool(earned.is_valid[n]), bool(earned.is_correct[n])
    return {
        "reward": float(earned.reward[n]) if is_valid else None,
        "percentile": percentile if is_correct else None,
        "is_valid": is_valid,
        "is_correct": is_correct,
        "is_fast": bool(earned.is_fast[n]),
        "status": [arrays.Status(status).name.lower() for status in run.status],
        "duration_s": [float(second) for second in run.duration_s],
    }


def _summarize(job: Job, lines: Sequence[dict], *, wall_s: float) -> None:
    valid = [line for line in lines if line["is_valid"]]
    shares = {name: statistics.fmean(line[f"is_{name}"] for line in valid) if valid else None for name in SHARES}
    figures = {
        "programs": len(lines),
        "problems": len({line["problem"] for line in lines}),
        "faulted": len(lines) - len(valid),
        **{f"{name}_share": share for name, share in shares.items()},
        "mean_reward": statistics.fmean(line["reward"] for line in valid) if valid else None,
        "wall_s": wall_s,
    }
    table = rich.table.Table("figure", "value", title="judged programs")
    for name, value in figures.items():
        table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
    plots.print_table(table)
    files.write_json(job.workdir / "summary.json", figures | {"settings": thaw(job.settings)})
    _LOG.info("each program's verdicts and seconds: %s", job.workdir / "judged.jsonl")


if __name__ == "__main__":
    sys.exit(run_job(main, options=OPTIONS))
