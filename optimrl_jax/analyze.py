"""Edge: every table and figure of stored evaluations, and one HTML page.

`python -m optimrl_jax.analyze --records=W/evaluation[,W2/evaluation] --output=D [--runs=W,W2] [--baseline=POLICY]
[--leaderboard=fresh|affine|stored]`. Records of equal problems stand side by side; those of another dataset get a part
of their own. Nothing is executed and no model is loaded.
"""

import logging
import pathlib
import sys
import time
from collections.abc import Callable, Sequence

from optimrl_jax.analysis import (
    definition_sections,
    metric_sections,
    page,
    replay_sections,
    run_sections,
    score_sections,
    speed_sections,
)
from optimrl_jax.analysis.sections import Section
from optimrl_jax.analysis.study import Study, open_studies
from optimrl_jax.analysis.timing import backends, passes, service, service_states
from optimrl_jax.evaluation.leaderboards import LEADERBOARDS
from optimrl_jax.jobs.command_line import ArgumentParser, log_to_terminal, run_command
from optimrl_jax.jobs.errors import require
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.jobs.user_paths import existing_path, writable_directory

_LOG = logging.getLogger(__name__)
NAME = "analyze"

# Every section of the page, in order.
SECTIONS: dict[str, Callable[[Study], Section]] = {
    "overview": run_sections.overview,
    "scores": score_sections.scores,
    "profiles": score_sections.profiles,
    "heatmap": replay_sections.heatmap,
    "calibrations": replay_sections.calibrations,
    "time_limits": replay_sections.time_limits,
    "win_rates": speed_sections.win_rates,
    "difficulty": speed_sections.difficulty,
    "best_human": speed_sections.best_human,
    "scalarizations": metric_sections.scalarizations,
    "metrics": metric_sections.metrics,
    "other_definitions": definition_sections.other_definitions,
    "timing_passes": passes.timing_passes,
    "repeated_passes": passes.repeated_passes,
    "corrections": backends.corrections,
    "protocols": backends.protocols,
    "dynamics": run_sections.dynamics,
    "training_runs": run_sections.training_runs,
    "service": service.service,
    "bursts": service.bursts,
    "service_states": service_states.service_states,
    "lengths": run_sections.lengths,
    "cases": speed_sections.cases,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Analyse the records that the flags name.

    Returns:
      The exit code: 0, or 2 after one line for a caller's mistake.
    """
    log_to_terminal()
    return run_command(_run, argv, name=NAME)


def _run(arguments: Sequence[str]) -> None:
    flags = _parser().parse_args(arguments)
    records, runs = _directories(flags.records, "--records"), _directories(flags.runs, "--runs")
    require(bool(records), "--records", flags.records, "directories that evaluations wrote")
    output = writable_directory(flags.output, "--output")
    analyze(records, output, runs=runs, baseline=flags.baseline, leaderboard=flags.leaderboard)


def analyze(
    records: Sequence[pathlib.Path],
    output: pathlib.Path,
    *,
    runs: Sequence[pathlib.Path] = (),
    baseline: str = "",
    leaderboard: str = "fresh",
) -> list[Study]:
    """Write the page with all tables and figures.

    Args:
      records: directories that evaluations wrote.
      output: directory of the page, made where it is missing.
      runs: workdirs of training runs.
      baseline: label of the policy that others are compared with; empty: the first.
      leaderboard: a key of `LEADERBOARDS`.

    Returns:
      The studies that the page shows.

    Raises:
      UserError: for unreadable records or an unknown baseline.
    """
    started_s = time.monotonic()
    studies = open_studies(records, leaderboard=leaderboard, baseline=baseline, runs=runs)
    parts = []
    with JobProgress("section", len(studies) * len(SECTIONS)) as progress:
        for study in studies:
            names = sorted({problem.source for problem in study.problems})
            heading = f"{len(study.policies)} policies on {len(study.problems)} problems ({', '.join(names)})"
            sections = []
            for name, section in SECTIONS.items():
                sections.append(section(study))
                progress.advance_to(len(parts) * len(SECTIONS) + len(sections), name)
            parts.append((heading, sections))
    page.write_page(output, parts, title="Evaluation")
    _LOG.info("%s: %d sections in %.1f s", output / "index.html", len(SECTIONS), time.monotonic() - started_s)
    return studies


def _parser() -> ArgumentParser:
    description = "Draw every table and figure of stored evaluations, on one HTML page; nothing is executed."
    parser = ArgumentParser(prog=NAME, description=description)
    parser.add_argument("--records", required=True, help="directories that evaluations wrote, separated by commas")
    parser.add_argument("--output", required=True, help="directory of the page, tables and figures")
    parser.add_argument("--runs", default="", help="workdirs of training runs, for what their metrics say")
    parser.add_argument("--baseline", default="", help="policy that others are compared with; empty: the first")
    parser.add_argument(
        "--leaderboard", default="fresh", choices=sorted(LEADERBOARDS), help="references to rank against"
    )
    return parser


def _directories(text: str, flag: str) -> list[pathlib.Path]:
    return [existing_path(part, flag, is_directory=True) for part in text.split(",") if part]


if __name__ == "__main__":
    sys.exit(main())
