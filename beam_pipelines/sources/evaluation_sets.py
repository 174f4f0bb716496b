"""Edge: reads the statements of evaluation sets that the corpus must not contain (JSON Lines or Parquet)."""

import json
import pathlib
from collections.abc import Iterator, Mapping

import pyarrow
import pyarrow.parquet

from optimrl_jax.errors import UserError
from optimrl_jax.jobs.user_paths import existing_path

# LiveCodeBench says question_content, CodeContests description, others prompt or text.
STATEMENT_FIELDS = ("statement", "question_content", "description", "prompt", "text")
NAME_FIELDS = ("id", "name", "question_id", "task_id", "question_title")


def read_evaluation_sets(paths: str) -> dict[str, str]:
    """Name -> statement over all files of a comma-separated list; raises UserError for one that does not fit."""
    found = {}
    for path in filter(None, paths.split(",")):
        file = existing_path(path, "--evaluation_sets")
        for number, row in enumerate(_rows(file)):
            fields = [field for field in STATEMENT_FIELDS if isinstance(row.get(field), str)]
            if not fields:
                wanted = ", ".join(STATEMENT_FIELDS)
                raise UserError(f"--evaluation_sets = {path!r}: record {number}: expected one of the fields {wanted}")
            name = next((str(row[field]) for field in NAME_FIELDS if row.get(field) is not None), str(number))
            found[f"{file.name}/{name}"] = row[fields[0]]
    return found


def _rows(file: pathlib.Path) -> Iterator[Mapping]:
    try:
        if file.suffix == ".parquet":
            yield from pyarrow.parquet.read_table(file).to_pylist()
        else:
            yield from (json.loads(line) for line in file.read_text("utf-8-sig").splitlines() if line.strip())
    except (pyarrow.ArrowException, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--evaluation_sets = {str(file)!r}: expected JSON Lines or Parquet ({reason})") from None
