"""Edge: the study in one command: every row from equal starts, several seeds, every claim of the paper's headline.

`python -m optimrl_jax.study [--output=runs/study] [--seeds=3] [--rows=A,B] [--config=configs/study.py]
[--config.FIELD=VALUE …]`. A study that was stopped goes on where it was; what is finished is not done again. With
`--report` it runs nothing and reports on the seeds that are whole.
"""

import logging
import os
import pathlib
import sys
import time
from collections.abc import Sequence

from optimrl_jax.jobs.checked_fields import did_you_mean
from optimrl_jax.jobs.command_line import ArgumentParser, log_to_terminal, run_command
from optimrl_jax.jobs.errors import UserError, require
from optimrl_jax.jobs.locks import locked_directory
from optimrl_jax.jobs.processes import run_job_process
from optimrl_jax.jobs.user_paths import writable_directory
from optimrl_jax.study.plan import ROWS, StudyStep, study_steps
from optimrl_jax.study.report import read_study, write_report

_LOG = logging.getLogger(__name__)
NAME = "study"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing of a study and report on it.

    Returns:
      The exit code: 0, 2 after one line for a caller's mistake, or that of the job that failed.
    """
    log_to_terminal()
    return run_command(_run, argv, name=NAME)


def _run(arguments: Sequence[str]) -> None:
    flags, changes = _parser().parse_known_args(list(arguments))
    wrong = [flag for flag in changes if not flag.startswith("--config.")]
    if wrong:
        raise UserError(f"unexpected argument {wrong[0]!r}: expected only the study's flags and --config.FIELD=VALUE")
    rows = tuple(flags.rows.split(","))
    for row in rows:
        require(row in ROWS, "--rows", row, f"one of {', '.join(ROWS)}{did_you_mean(row, ROWS)}")
    require(flags.seeds >= 1, "--seeds", flags.seeds, "a positive number")
    root = pathlib.Path(flags.output)
    steps = study_steps(str(root), config=flags.config, rows=rows, seeds=flags.seeds, changes=changes)
    if not flags.report:
        with locked_directory(writable_directory(flags.output, "--output"), field="--output"):
            _run_steps(steps)
    whole = [root / f"seed{seed}" for seed in range(flags.seeds) if (root / f"seed{seed}" / "summary.json").exists()]
    if not whole:
        raise UserError(f"--output = {root}: expected at least one seed whose evaluation is finished")
    facts = {"command": " ".join(("python -m optimrl_jax.study", *arguments)), "cores": os.cpu_count()}
    asked = write_report(read_study([seed / "evaluation" for seed in whole]), root, facts=facts)
    for claim, gain, verdict in asked:
        _LOG.info("%-14s %+6.1f [%+.1f, %+.1f]  %s", verdict, gain.mean, gain.low, gain.high, claim.text)
    _LOG.info("%s: %d claims over %d seeds", root / "study.md", len(asked), len(whole))


def _run_steps(steps: Sequence[StudyStep]) -> None:
    missing = [step for step in steps if not pathlib.Path(step.result).exists()]
    for done, step in enumerate(missing):
        _LOG.info(
            "study: job %d of %d: %s -> %s", done + 1, len(missing), step.module, pathlib.Path(step.result).parent
        )
        started_s = time.monotonic()
        code = run_job_process(step.module, step.flags)
        if code:
            _LOG.error("study: %s ended with code %d; the same command goes on from here", step.module, code)
            sys.exit(code)
        _LOG.info("study: done in %.0f s", time.monotonic() - started_s)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog=NAME, description="Train the paper's rows from equal starts and ask its claims.")
    parser.add_argument("--output", default="runs/study", help="directory of the study")
    parser.add_argument("--seeds", type=int, default=3, help="launches of every row")
    parser.add_argument("--rows", default=",".join(ROWS), help="rows to train, separated by commas")
    parser.add_argument("--config", default="configs/study.py", help="configuration file whose rows are the study's")
    parser.add_argument("--report", action="store_true", help="run nothing: report on the seeds that are whole")
    return parser


if __name__ == "__main__":
    sys.exit(main())
