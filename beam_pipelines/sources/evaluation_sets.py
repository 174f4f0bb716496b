"""Reads the statements of evaluation sets that the corpus must not contain (JSON Lines or Parquet, row by row)."""

from collections.abc import Iterator

from beam_pipelines.sources.row_files import ALL_SPLITS, DamagedRow, find_row_files, make_blocks, read_block
from optimrl_jax.jobs.errors import UserError

# LiveCodeBench says question_content, APPS and TACO question, CodeContests description, others prompt or text.
STATEMENT_FIELDS = ("statement", "question_content", "question", "description", "prompt", "text")
NAME_FIELDS = ("id", "name", "question_id", "problem_id", "task_id", "question_title")


def read_evaluation_sets(paths: str) -> dict[str, str]:
    """Read the statements of evaluation sets.

    Args:
      paths: files and directories of JSON Lines or Parquet, separated by commas; empty for none.

    Returns:
      Name -> statement; names are made unique by file and row.

    Raises:
      UserError: a file is not there or broken, or a row has none of the fields in which sets keep their statements.
    """
    found = {}
    for path in filter(None, paths.split(",")):
        for name, row in _rows(path):
            if not isinstance(row, dict) or not (fields := [key for key in STATEMENT_FIELDS if _is_text(row.get(key))]):
                wanted = ", ".join(STATEMENT_FIELDS)
                raise UserError(f"--evaluation_sets = {path!r}: record {name}: expected one of the fields {wanted}")
            own = next((str(row[field]) for field in NAME_FIELDS if row.get(field) is not None), "")
            short = f"{name.partition(':')[0]}/{own}" if own else name
            found[short if short not in found else f"{name}/{own}"] = row[fields[0]]
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _rows(path: str) -> Iterator[tuple[str, object]]:
    for block in make_blocks(find_row_files(path, ALL_SPLITS, field="--evaluation_sets"), limit=0):
        for row in read_block(block):
            if isinstance(row, DamagedRow):
                raise UserError(
                    f"--evaluation_sets = {path!r}: expected JSON Lines or Parquet ({row.name}: {row.detail})"
                )
            yield row
