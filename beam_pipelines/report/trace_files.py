"""Edge: what every stage left of every problem, and the decisions that a person may want to look at, as JSON Lines."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence

from beam_pipelines.records import Problem, Rejection

TRACES = "traces.jsonl"
REVIEWS = "reviews.jsonl"


def write_traces(path: pathlib.Path, records: Sequence[Problem | Rejection], *, splits: Mapping[str, str]) -> None:
    """Write one line per problem: what each stage left of it, and its split or why it was rejected."""
    with path.open("w") as lines:
        for record in records:
            trace = [dataclasses.asdict(step) for step in record.trace]
            if isinstance(record, Problem):
                line = {"id": record.id, "split": splits[record.id], "trace": trace}
            else:
                line = {"id": record.problem_id, "rejected_by": record.stage, "reason": record.reason}
                line |= {"detail": record.detail, "trace": trace}
            lines.write(json.dumps(line) + "\n")


def write_reviews(path: pathlib.Path, records: Sequence[Problem | Rejection]) -> None:
    """Write one line per removed test and changed label, with the verdicts behind it (as in App. B.5, Table 16)."""
    with path.open("w") as lines:
        for record in records:
            name = record.id if isinstance(record, Problem) else record.problem_id
            for review in record.reviews:
                lines.write(json.dumps({"problem": name, **dataclasses.asdict(review)}) + "\n")
