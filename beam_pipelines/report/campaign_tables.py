"""What generated tests did to problems and solutions: the tables of App. B.4 to B.6 from a build's traces. Pure.

A trace is a line of `traces.jsonl`: what every stage left of one problem, rejected problems included, so that the
tables speak of the pools that the paper samples and not only of what survived.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ProblemTrace = Mapping[str, Any]

CAMPAIGNS = ("correctness", "optimization")
STAGES = ("before", "generated", "timeout_filter", "failure_filter", "filtered")
STATUS_STAGES = ("generated", "timeout_filter", "filtered")
STATUSES = ("success", "timeout", "failure", "fault")
LABELS = ("correct", "incorrect")
FALSE_POSITIVE_LIMITS = (0.05, 0.10, 0.20)
DROP_LIMITS = (0.10, 0.25, 0.50)
BINS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
TOP = 10


def stage_notes(trace: ProblemTrace, stage: str) -> dict[str, float] | None:
    """Return what a stage noted for a problem, with the counts of what it left.

    Args:
      trace: a line of `traces.jsonl`.
      stage: the stage's name.

    Returns:
      Name -> figure; None where the problem did not come so far.
    """
    for step in trace["trace"]:
        if step["stage"] == stage:
            return {name: float(step.get(name, 0)) for name in ("correct", "incorrect", "tests")} | dict(step["notes"])
    return None


def campaign_rates(traces: Sequence[ProblemTrace]) -> list[dict[str, Any]]:
    """Tabulate the execution-validated pool: one row per problem with pass rates by stage of the correctness campaign.

    Args:
      traces: of all problems that were read; those that did not reach the campaign are left out.

    Returns:
      Rows with `id`, `has_tests` (whether any generated correctness test was accepted), `LABEL_STAGE` (pass rates in
      [0, 1], NaN where the stage did not see the problem) and the numbers of `correct` and `incorrect` solutions.
    """
    rows = []
    for trace in traces:
        generated, filtered = stage_notes(trace, "generate_correctness"), stage_notes(trace, "filter_tests_correctness")
        if generated is None:
            continue
        notes = (filtered or {}) | generated
        rates = {
            f"{label}_{when}": notes.get(f"{label}_pass_rate_{when}", float("nan"))
            for label in LABELS
            for when in STAGES
        }
        counts = {name: generated[name] for name in LABELS}
        rows.append({"id": trace["id"], "has_tests": bool(generated.get("accepted")), **rates, **counts})
    return rows


def generation_table(traces: Sequence[ProblemTrace]) -> dict[str, dict[str, float]]:
    """Tabulate test generation by campaign (App. B.4, Table 12).

    Args:
      traces: of all problems that were read.

    Returns:
      Campaign -> problems of the pool, those with at least one accepted set, the share of attempts that were accepted
      (pass@1), accepted tests in all and on average over the problems that received any.
    """
    table = {}
    for campaign in CAMPAIGNS:
        notes = [note for trace in traces if (note := stage_notes(trace, f"generate_{campaign}")) is not None]
        attempts = sum(note.get("attempts", 0) for note in notes)
        accepted = [note for note in notes if note.get("accepted")]
        tests = sum(note.get("tests_added", 0) for note in accepted)
        table[campaign] = {
            "problems": len(notes),
            "with_accepted_set": len(accepted),
            "with_accepted_set_share": len(accepted) / max(1, len(notes)),
            "pass@1": sum(note["accepted"] for note in accepted) / max(1, attempts),
            "accepted_tests": tests,
            "mean_tests": tests / max(1, len(accepted)),
        }
    return table


def attrition_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Tabulate correct-solution attrition before filtering (App. B.5, Table 14).

    Args:
      rows: as `campaign_rates` returns them; only problems with generated tests count.

    Returns:
      Numbers of problems, and mean, median and largest drops as shares in [0, 1]; 0 where no problem lost any solution.
    """
    covered = [row for row in rows if row["has_tests"]]
    drops = np.array([row["correct_before"] - row["correct_generated"] for row in covered])
    lost = drops[drops > 0]
    table = {
        "problems": len(rows),
        "with_generated_tests": len(covered),
        "mean_pass_rate_before": _mean([row["correct_before"] for row in covered]),
        "mean_pass_rate_generated": _mean([row["correct_generated"] for row in covered]),
        "lower": float((drops > 0).sum()),
        "unchanged": float((drops == 0).sum()),
        "higher": float((drops < 0).sum()),
        "mean_drop": _mean(lost),
        "median_drop": float(np.median(lost)) if lost.size else 0.0,
        "largest_drop": float(lost.max()) if lost.size else 0.0,
    }
    return table | {f"drop_above_{limit:.0%}": float((drops > limit).sum()) for limit in DROP_LIMITS}


def false_positive_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Tabulate false-positive rates before and after generated tests (App. B.5, Figures 14 and 15).

    Args:
      rows: as `campaign_rates` returns them; only problems with generated tests count.

    Returns:
      `before`, `generated` and `change` -> mean and median (shares in [0, 1]), problems above each limit and problems
      by bin of the histogram; the change has no limits and bins.
    """
    covered = [row for row in rows if row["has_tests"]]
    table = {}
    for when in STAGES[:2]:
        rates = np.array([row[f"incorrect_{when}"] for row in covered])
        above = {f"above_{limit:.0%}": float((rates > limit).sum()) for limit in FALSE_POSITIVE_LIMITS}
        counts, _ = np.histogram(rates, bins=BINS)
        bins = {f"{low:.0%} to {high:.0%}": float(n) for low, high, n in zip(BINS, BINS[1:], counts, strict=False)}
        table[when] = {"problems": len(covered), "mean": _mean(rates), "median": _median(rates), **above, **bins}
    change = np.array([row["incorrect_generated"] - row["incorrect_before"] for row in covered])
    table["change"] = dict.fromkeys(table["before"], float("nan")) | {
        "problems": len(covered),
        "mean": _mean(change),
        "median": _median(change),
    }
    return table


def change_counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Count the problems whose false-positive rate improved, stayed, rose, or fell to zero.

    Args:
      rows: as `campaign_rates` returns them; only problems with generated tests count.
    """
    covered = [row for row in rows if row["has_tests"]]
    change = np.array([row["incorrect_generated"] - row["incorrect_before"] for row in covered])
    return {
        "improved": float((change < 0).sum()),
        "unchanged": float((change == 0).sum()),
        "worse": float((change > 0).sum()),
        "to_none": float(sum(row["incorrect_before"] > 0 == row["incorrect_generated"] for row in covered)),
    }


def filter_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Average pass rates before and after generation, after each filter alone and after both (App. B.5, Figure 17).

    Args:
      rows: as `campaign_rates` returns them; only problems with generated tests count.

    Returns:
      Stage -> label -> mean over problems, in [0, 1].
    """
    covered = [row for row in rows if row["has_tests"]]
    return {when: {label: _mean([row[f"{label}_{when}"] for row in covered]) for label in LABELS} for when in STAGES}


def status_table(traces: Sequence[ProblemTrace]) -> dict[str, dict[str, float]]:
    """Count executions by status on generated tests, before and after the filters (App. B.5, Figures 18 and 19).

    Args:
      traces: of all problems that were read.

    Returns:
      "CAMPAIGN, LABEL, STAGE" -> status -> executions.
    """
    table = {}
    for campaign in CAMPAIGNS:
        notes = [note for trace in traces if (note := stage_notes(trace, f"filter_tests_{campaign}")) is not None]
        for label in LABELS:
            for when in STATUS_STAGES:
                table[f"{campaign}, {label}, {when}"] = {
                    status: sum(note.get(f"{label}_{status}_{when}", 0.0) for note in notes) for status in STATUSES
                }
    return table


def solution_table(traces: Sequence[ProblemTrace]) -> dict[str, dict[str, float]]:
    """Count the problems, solutions and tests that each stage left (App. B.6, Table 19).

    Args:
      traces: of all problems that were read.

    Returns:
      Stage -> problems, correct and incorrect solutions, and tests.
    """
    table: dict[str, dict[str, float]] = {}
    for trace in traces:
        # The stage that rejects a problem leaves nothing of it; its entry carries the costs alone.
        for step in trace["trace"]:
            if step["stage"] != trace.get("rejected_by"):
                row = table.setdefault(step["stage"], {"problems": 0, "correct": 0, "incorrect": 0, "tests": 0})
                row["problems"] += 1
                for name in ("correct", "incorrect", "tests"):
                    row[name] += step[name]
    return table


def largest_reductions(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the ten problems whose false-positive rate fell most, largest fall first (App. B.5, Table 15).

    Args:
      rows: as `campaign_rates` returns them; only problems with generated tests count.

    Returns:
      Problem id -> rates and counts; fewer where fewer fell.
    """
    covered = [row for row in rows if row["has_tests"]]
    covered.sort(key=lambda row: row["incorrect_generated"] - row["incorrect_before"])
    return {row["id"]: _case(row) for row in covered[:TOP] if row["incorrect_generated"] < row["incorrect_before"]}


def largest_drops(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the ten problems that lost most correct solutions, largest loss first (App. B.5, Table 18).

    Args:
      rows: as `campaign_rates` returns them; only problems with generated tests count.

    Returns:
      Problem id -> rates and counts; fewer where fewer lost any.
    """
    covered = [row for row in rows if row["has_tests"]]
    covered.sort(key=lambda row: row["correct_generated"] - row["correct_before"])
    return {row["id"]: _case(row) for row in covered[:TOP] if row["correct_generated"] < row["correct_before"]}


def without_generated_tests(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the ten worst false-positive rates of problems without an accepted generated test (App. B.5, Table 17).

    Args:
      rows: as `campaign_rates` returns them.

    Returns:
      Problem id -> counts and rate, highest rate first; only rates above 5 %.
    """
    bare = [row for row in rows if not row["has_tests"] and row["incorrect_before"] > FALSE_POSITIVE_LIMITS[0]]
    bare.sort(key=lambda row: -row["incorrect_before"])
    names = ("correct", "incorrect", "incorrect_before")
    return {row["id"]: {name: row[name] for name in names} for row in bare[:TOP]}


def _case(row: Mapping[str, Any]) -> dict[str, float]:
    names = ("incorrect_before", "incorrect_generated", "correct_before", "correct_generated", "correct", "incorrect")
    return {name: row[name] for name in names}


def _mean(values: Sequence[float] | np.ndarray) -> float:
    known = np.asarray(values, float)
    known = known[np.isfinite(known)]
    return float(known.mean()) if known.size else 0.0


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if values.size else 0.0
