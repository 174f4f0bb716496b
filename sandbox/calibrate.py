"""Edge: measures stored programs again and fits the map from stored to fresh seconds. `python -m sandbox.calibrate`.

The campaign file has one JSON object a line: `problem`, `program`, `inputs`, `stored_s` (one duration for each input).
Writes `pairs.jsonl`, `calibration.json`, `calibration.png` and `summary.json`; with `--compare=OLD/calibration.json` it
also says how the map has moved.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence

import numpy as np

from sandbox import calibration, client
from sandbox.protocol import Limits, RunRequest, Suite, Verdict

FIELDS = ("problem", "program", "inputs", "stored_s")


class CampaignError(ValueError):
    """The campaign file cannot be used; the message names line and field."""


def read_campaign(path: pathlib.Path) -> list[dict]:
    """All entries; raises CampaignError for the first that is not one."""
    entries = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise CampaignError(f"{path}:{number}: expected JSON ({error})") from None
        missing = [field for field in FIELDS if not isinstance(entry, dict) or field not in entry]
        if missing or len(entry["inputs"]) != len(entry["stored_s"]):
            raise CampaignError(f"{path}:{number}: expected {', '.join(FIELDS)}, one stored_s for each input")
        entries.append(entry)
    if not entries:
        raise CampaignError(f"{path}: expected at least one line")
    return entries


def measure(connected: client.Client, entries: Sequence[dict], *, repeats: int, limit_s: float) -> calibration.Pairs:
    """Runs every entry again; pairs of tests that do not succeed are left out."""
    requests = []
    for entry in entries:
        suite = Suite(inputs=tuple(entry["inputs"]), expected=(None,) * len(entry["inputs"]))
        sha256 = connected.upload(suite)
        requests.append(RunRequest(entry["program"], sha256, repeats=repeats, limits=Limits(wall_s=limit_s)))
    rows = [
        (entry["stored_s"][result.test], result.wall_s, str(entry["problem"]))
        for entry, answer in zip(entries, connected.run_many(requests), strict=True)
        for result in answer.results
        if result.verdict is Verdict.SUCCESS and entry["stored_s"][result.test] > 0
    ]
    stored_s, fresh_s, problem = zip(*rows, strict=True) if rows else ((), (), ())
    return calibration.Pairs(np.array(stored_s, float), np.array(fresh_s, float), np.array(problem))


def write(directory: pathlib.Path, pairs: calibration.Pairs, found: calibration.Calibration) -> None:
    """Pairs, calibration and plot."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = zip(*(column.tolist() for column in pairs), strict=True)
    lines = (json.dumps(dict(zip(pairs._fields, row, strict=True))) for row in rows)
    (directory / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    text = json.dumps(dataclasses.asdict(found) | {"version": found.version}, indent=2)
    (directory / "calibration.json").write_text(text + "\n")
    plot(directory / "calibration.png", pairs, found)


def plot(path: pathlib.Path, pairs: calibration.Pairs, found: calibration.Calibration) -> None:
    from matplotlib import figure

    drawing = figure.Figure(figsize=(6, 5), layout="constrained")
    axes = drawing.subplots()
    axes.scatter(pairs.stored_s, pairs.fresh_s, s=8, alpha=0.5, color="0.4")
    grid = np.linspace(0, pairs.stored_s.max(), 200)
    for name, fit in found.fits.items():
        label = f"{name}, unseen R² {fit.unseen_r_squared:.3f}"
        axes.plot(grid, calibration.FAMILIES[name].apply(np.array(fit.coefficients), grid), label=label)
    axes.set(xlabel="stored duration, s", ylabel="fresh duration, s", title=found.version)
    axes.legend()
    drawing.savefig(path, dpi=120)


def summary_of(found: calibration.Calibration, old: calibration.Calibration | None) -> dict[str, object]:
    """What a reader wants first; with an older calibration also how far the affine map has moved."""
    summary: dict[str, object] = {
        "version": found.version,
        "alpha": found.alpha,
        "beta_s": found.beta,
        "pairs": found.pairs,
        "problems": found.problems,
        "r_squared": found.fits["affine"].r_squared,
        "rmse_s": found.fits["affine"].rmse_s,
    }
    if old:
        moved = {"old": old.version, "alpha_ratio": found.alpha / old.alpha, "beta_change_s": found.beta - old.beta}
        summary["compared"] = moved
    return summary


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.calibrate", description=__doc__)
    parser.add_argument("--campaign", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--address", default="docker")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit_s", type=float, default=10.0)
    parser.add_argument("--compare", type=pathlib.Path, help="calibration.json of an earlier campaign")
    flags = parser.parse_args(arguments)
    try:
        old = calibration.from_dict(_without_version(flags.compare)) if flags.compare else None
        entries = read_campaign(flags.campaign)
        with client.connect(flags.address, workers=flags.workers) as connected:
            pairs = measure(connected, entries, repeats=flags.repeats, limit_s=flags.limit_s)
            found = calibration.calibrate(pairs, measured_under=connected.measured_under)
        write(flags.output, pairs, found)
    except (OSError, ValueError, KeyError) as error:
        print(f"sandbox.calibrate: {error}", file=sys.stderr)
        return 2
    summary = summary_of(found, old)
    (flags.output / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    _print(summary)
    return 0


def _without_version(path: pathlib.Path) -> dict:
    value = json.loads(path.read_text())
    value.pop("version", None)
    return value


def _print(summary: dict[str, object]) -> None:
    from rich import console, table

    shown = table.Table("figure", "value")
    for name, value in summary.items():
        shown.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
    console.Console().print(shown)


if __name__ == "__main__":
    sys.exit(main())
