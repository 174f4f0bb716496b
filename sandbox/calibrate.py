"""Edge: measures stored programs again and fits the map from stored to fresh seconds. `python -m sandbox.calibrate`.

The campaign file has one JSON object a line: `problem`, `program`, `inputs`, `stored_s` (one duration for each input).
Writes `pairs.jsonl`, `calibration.json`, `calibration.png`, `residuals.png` and `summary.json`. With
`--compare=OLD/calibration.json` it also says how far the map has moved and whether that is beyond noise, and draws
`comparison.png`. A campaign that was stopped goes on where it was when it is started again.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import typing
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sandbox import client
from sandbox.flags import FlagParser, named_path, one_line
from sandbox.protocol import Limits, RunRequest, Suite, Verdict
from sandbox.service import health
from sandbox.timing import calibration

FIELDS = ("problem", "program", "inputs", "stored_s")


class CampaignError(ValueError):
    """A file cannot be used; the message names it, and line and field where there are any."""


class CalibrationCampaign(NamedTuple):
    """What one campaign measured and found.

    Attributes:
      pairs: stored and fresh seconds of the tests that were kept.
      found: the fits.
      left_out: number of tests that did not succeed, were timed in a degraded moment, or had no stored seconds; not
        stored in files, hence 0 for a campaign that was read.
    """

    pairs: calibration.DurationPairs
    found: calibration.Calibration
    left_out: int = 0


def read_entries(path: pathlib.Path) -> list[dict]:
    """Return all entries of a campaign file.

    Args:
      path: a file with one JSON object a line, with the fields FIELDS.

    Raises:
      CampaignError: a line is not such an object, or the file is empty.
    """
    entries = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise CampaignError(f"{path}:{number}: expected JSON ({error})") from None
        if not _is_entry(entry):
            raise CampaignError(f"{path}:{number}: expected {', '.join(FIELDS)}, one stored_s for each input")
        entries.append(entry)
    if not entries:
        raise CampaignError(f"{path}: expected at least one line")
    return entries


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or any(field not in entry for field in FIELDS):
        return False
    inputs, stored_s = entry["inputs"], entry["stored_s"]
    are_lists = isinstance(entry["program"], str) and isinstance(inputs, list) and isinstance(stored_s, list)
    return (
        are_lists
        and 0 < len(inputs) == len(stored_s)
        and all(isinstance(text, str) for text in inputs)
        and all(isinstance(seconds, int | float) for seconds in stored_s)
    )


def run_campaign(
    connected: client.Client, entries: Sequence[dict], *, repeats: int, limit_s: float
) -> CalibrationCampaign:
    """Run every entry again and fit the map from its stored seconds to fresh ones.

    Tests that do not succeed, or were timed in a degraded moment, are left out.

    Args:
      connected: client of the service to calibrate.
      entries: what `read_entries` returned.
      repeats: timed executions of a test on average, 1 to 100.
      limit_s: wall limit of one run.

    Raises:
      ValueError: too few tests or problems are left to judge a fit.
    """
    requests = []
    for entry in entries:
        suite = Suite(inputs=tuple(entry["inputs"]), expected=(None,) * len(entry["inputs"]))
        sha256 = connected.upload(suite)
        requests.append(RunRequest(entry["program"], sha256, repeats=repeats, limits=Limits(wall_s=limit_s)))
    rows = [
        (entry["stored_s"][result.test], result.wall_s, problem, f"{problem}: {entry['inputs'][result.test]}", number)
        for number, (entry, answer) in enumerate(zip(entries, _answers(connected, requests), strict=True))
        if not health.degraded_by(answer.measured_under)
        for problem in [str(entry["problem"])]
        for result in answer.results
        if result.verdict is Verdict.SUCCESS and entry["stored_s"][result.test] > 0
    ]
    left_out = sum(len(entry["inputs"]) for entry in entries) - len(rows)
    pairs = calibration.DurationPairs(*map(np.array, zip(*rows, strict=True))) if rows else _no_pairs()
    return CalibrationCampaign(pairs, calibration.calibrate(pairs, measured_under=connected.measured_under), left_out)


def _answers(connected: client.Client, requests: Sequence[RunRequest]) -> list:
    from rich import console, progress

    with progress.Progress(console=console.Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("programs", total=len(requests))
        return connected.run_many(requests, on_result=lambda _: bar.advance(task))


def _no_pairs() -> calibration.DurationPairs:
    return calibration.DurationPairs(*(np.zeros(0) for _ in calibration.DurationPairs._fields))


def write_campaign(directory: pathlib.Path, campaign: CalibrationCampaign) -> None:
    """Write `pairs.jsonl`, `calibration.json` and both plots into a directory, which is made if need be."""
    from sandbox.timing import campaign_plots

    pairs, found, _ = campaign
    directory.mkdir(parents=True, exist_ok=True)
    rows = zip(*(column.tolist() for column in pairs if column is not None), strict=True)
    lines = (json.dumps(dict(zip(pairs._fields, row, strict=True))) for row in rows)
    (directory / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    text = json.dumps(dataclasses.asdict(found) | {"version": found.version}, indent=2)
    (directory / "calibration.json").write_text(text + "\n")
    campaign_plots.families(directory / "calibration.png", pairs, found)
    campaign_plots.residuals(directory / "residuals.png", pairs, found)


def read_campaign(path: pathlib.Path) -> CalibrationCampaign:
    """Read what `write_campaign` wrote, by its `calibration.json` or its directory.

    Raises CampaignError for anything else.
    """
    path = path / "calibration.json" if path.is_dir() else path
    pairs_path = path.with_name("pairs.jsonl")
    try:
        value = json.loads(path.read_text())
        value.pop("version", None)
        rows = [json.loads(line) for line in pairs_path.read_text().splitlines()]
        names = [name for name in calibration.DurationPairs._fields if name in rows[0]]
        pairs = calibration.DurationPairs(**{name: np.array([row[name] for row in rows]) for name in names})
        return CalibrationCampaign(pairs, calibration.calibration_from_dict(value))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CampaignError(f"{path}: expected the results of an earlier campaign ({error!r})") from None


def summary_of(campaign: CalibrationCampaign, old: CalibrationCampaign | None) -> dict[str, object]:
    """Summarize a campaign in plain values.

    Args:
      campaign: the campaign to summarize.
      old: an earlier one, or None.

    Returns:
      Coefficients with their 95 % intervals, qualities of the affine fit, and rank correlations; with `old` also, under
      `compared`, how far the affine map has moved since.

    Raises:
      ValueError: the two campaigns have fewer than two problems in common.
    """
    pairs, found, left_out = campaign
    alpha, beta_s = calibration.affine_intervals(pairs)
    calibrated_s = found.alpha * pairs.stored_s + found.beta
    summary: dict[str, object] = {
        "version": found.version,
        "alpha": found.alpha,
        "alpha_interval": tuple(alpha),
        "beta_s": found.beta,
        "beta_interval_s": tuple(beta_s),
        "pairs": found.pairs,
        "problems": found.problems,
        "left_out": left_out,
        "r_squared": found.fits["affine"].r_squared,
        "rmse_s": found.fits["affine"].rmse_s,
        "unseen_r_squared": found.fits["affine"].unseen_r_squared,
        "spearman_stored": calibration.leaderboard_spearman(pairs, pairs.stored_s),
        "spearman_calibrated": calibration.leaderboard_spearman(pairs, calibrated_s),
    }
    if old:
        moved = calibration.movement(old.pairs, pairs)
        summary["compared"] = {
            "old": old.found.version,
            "problems": moved.problems,
            "alpha_ratio": found.alpha / old.found.alpha,
            "alpha_change": found.alpha - old.found.alpha,
            "alpha_change_interval": tuple(moved.alpha_change),
            "beta_change_s": found.beta - old.found.beta,
            "beta_change_interval_s": tuple(moved.beta_change_s),
            "is_beyond_noise": moved.is_beyond_noise,
        }
    return summary


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign and return the exit code: 2, with one line on standard error, for a mistake; 130 when interrupted.

    Args:
      arguments: the command line after the program's name; None: that of this process.
    """
    flags = _parser().parse_args(arguments)
    try:
        summary = calibrate_service(flags)
    except (OSError, ValueError) as error:
        print(f"sandbox.calibrate: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sandbox.calibrate: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    _print(summary)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = FlagParser(
        "sandbox.calibrate", __doc__, usage="%(prog)s --campaign=FILE --output=DIRECTORY [--address=WHERE] [flags]"
    )
    parser.add_argument("--campaign", type=named_path, required=True, metavar="FILE", help="campaign file; required")
    output = "directory for the results, made where it does not exist; required"
    parser.add_argument("--output", type=named_path, required=True, metavar="DIRECTORY", help=output)
    for name, kind, metavar, default, meaning in (
        ("address", str, "WHERE", "docker", "what runs the programs: docker, local, or URLs of servers after commas"),
        ("workers", int, "NUMBER", 2, "programs that run, or requests under way to servers, at the same time"),
        ("repeats", int, "NUMBER", 3, "timed runs of each test on average, 1 to 100"),
        ("limit_s", float, "SECONDS", 10.0, "wall-clock limit of one run in seconds"),
    ):
        text = f"{meaning}; default: %(default)s"
        parser.add_argument(f"--{name}", type=kind, metavar=metavar, default=default, help=text)
    compare = "calibration.json of an earlier campaign, or its directory; default: no comparison"
    parser.add_argument("--compare", type=named_path, metavar="PATH", help=compare)
    return parser


def calibrate_service(flags: argparse.Namespace) -> dict[str, object]:
    """Run a whole campaign with the flags of `main` and return what it also writes as `summary.json`."""
    old = read_campaign(flags.compare) if flags.compare else None
    entries = read_entries(flags.campaign)
    flags.output.mkdir(parents=True, exist_ok=True)
    unfinished = flags.output / "unfinished.sqlite"
    # A campaign measures as things are: the fallback's runs on this machine have no place in it (Table 31).
    with client.connect(flags.address, workers=flags.workers, store=unfinished, fallback_policy="discard") as connected:
        campaign = run_campaign(connected, entries, repeats=flags.repeats, limit_s=flags.limit_s)
    write_campaign(flags.output, campaign)
    summary = summary_of(campaign, old)
    if old:
        from sandbox.timing import campaign_plots

        campaign_plots.comparison(flags.output / "comparison.png", old[:2], campaign[:2])
    (flags.output / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    unfinished.unlink()
    return summary


def _print(summary: dict[str, typing.Any]) -> None:
    from rich import console, table

    shown = table.Table("figure", "value")
    for name, value in (summary | summary.pop("compared", {})).items():
        shown.add_row(name, _text(value))
    console.Console().print(shown)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " to ".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
