"""Edge: files of rows (Parquet, JSON Lines, JSON; local or remote): which to read, in which blocks, and their rows.

Public problem sets come as one file, as a directory of files, or as a hub's repository with a folder for each
configuration and files named after their split. Blocks are small enough to spread over workers, and know their rows:
whatever a file holds comes out as a row or as a `DamagedRow`, so that what was read adds up.
"""

import dataclasses
import gzip
import json
import math
import re
from collections.abc import Iterator, Sequence

import pyarrow
import pyarrow.parquet
from etils import epath

from optimrl_jax.jobs.errors import UserError, require

# Of a directory, files with these endings are read. A file that is named itself is JSON Lines if it has none of them.
JSON_SUFFIXES = (".json", ".json.gz")
SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", *JSON_SUFFIXES)
ALL_SPLITS = "all"
# test2.jsonl is a further part of the split test, train-00001-of-00039.parquet one of train.
_SPLIT = re.compile(r"(train|training|valid|validation|val|dev|test)(?=\d*([-_.]|$))", re.IGNORECASE)
ROWS_A_BLOCK = 8
MAX_PARTS = 16


@dataclasses.dataclass(frozen=True)
class DamagedRow:
    """A row that its file could not give.

    Attributes:
      name: file and place of the row.
      reason: in one word, `not_json` or `broken_row_group`.
      detail: what the reader said.
    """

    name: str
    reason: str
    detail: str


@dataclasses.dataclass(frozen=True)
class RowBlock:
    """Some rows of one file, as plain values that travel to a worker.

    Attributes:
      path: the file.
      rows: how many rows the block has.
      first: number of its first row in the file (in the row group, for Parquet).
      offset: byte at which the first row begins, for JSON Lines.
      group: row group, for Parquet.
      part: which batches of the row group belong to the block: those whose number leaves this rest ...
      parts: ... when it is divided by this.
    """

    path: str
    rows: int
    first: int = 0
    offset: int = 0
    group: int = 0
    part: int = 0
    parts: int = 1


def find_row_files(name: str, split: str, *, field: str = "--input") -> list[epath.Path]:
    """Find the files of a problem set, of one split where it has several.

    Args:
      name: a file, a directory of files, or a repository as a hub publishes it (files in `data/`, in one folder a
        configuration, or in one folder a split).
      split: name of the split, as in `train`; `all` mixes them; may be empty where there is only one.
      field: the flag that carries the name, for messages.

    Raises:
      UserError: nothing is there, or the name leaves open which configuration or split is meant.
    """
    path = epath.Path(name)
    expected = "an existing file or directory of Parquet, JSON Lines or JSON"
    require(bool(name) and path.exists(), field, name, expected)
    files = _files_below(path, field) if path.is_dir() else [path]
    require(bool(files), field, name, f"at least one file: {expected}")
    splits = sorted({_split_of(file) for file in files} - {""})
    if split == ALL_SPLITS or (not split and len(splits) <= 1):
        return files
    require(split in splits, "--split", split, f"one of {', '.join((*splits, ALL_SPLITS))}")
    return [file for file in files if _split_of(file) == split]


def make_blocks(files: Sequence[epath.Path], *, limit: int, columns: Sequence[str] = ()) -> list[RowBlock]:
    """Divide the rows of files into blocks, in order.

    Args:
      files: as `find_row_files` returns them.
      limit: rows at most; 0 for all. It is met by the first rows of the first files.
      columns: names that each Parquet file must have.

    Raises:
      UserError: a file cannot be read, or lacks a column.
    """
    blocks: list[RowBlock] = []
    for file in files:
        left = limit - sum(block.rows for block in blocks) if limit else 0
        if limit and left <= 0:
            break
        if file.suffix == ".parquet":
            blocks += _parquet_blocks(file, limit=left, columns=columns)
        elif file.name.endswith(JSON_SUFFIXES):
            count = len(_json_rows(file))
            blocks.append(RowBlock(str(file), min(count, left) if limit else count))
        else:
            blocks += _line_blocks(file, limit=left)
    return blocks


def read_block(block: RowBlock) -> Iterator[tuple[str, object] | DamagedRow]:
    """Yield the rows of a block as pairs of name and value; the name tells rows of a file apart.

    A row that cannot be decoded comes as a `DamagedRow`.

    Raises:
      OSError: the disk or the network fails.
    """
    path = epath.Path(block.path)
    if path.suffix == ".parquet":
        yield from _read_parquet(path, block)
    elif path.name.endswith(JSON_SUFFIXES):
        for number, value in enumerate(_json_rows(path)[: block.rows]):
            yield f"{path.name}:{number}", value
    else:
        yield from _read_lines(path, block)


def _files_below(root: epath.Path, field: str) -> list[epath.Path]:
    """Return the files of a directory itself, of `data`, of its one folder with files, or of its folders of splits."""
    if files := _row_files_in(root):
        return files
    folders = {folder.name: _row_files_in(folder) for folder in sorted(root.iterdir()) if folder.is_dir()}
    folders = {folder: files for folder, files in folders.items() if files}
    if "data" in folders:
        return folders["data"]
    if len(folders) > 1 and not all(_SPLIT.match(folder) for folder in folders):
        raise UserError(f"{field} = {str(root)!r}: expected one configuration, with its folder: {', '.join(folders)}")
    return [file for files in folders.values() for file in files]


def _row_files_in(folder: epath.Path) -> list[epath.Path]:
    # A hub's repository keeps settings of its own beside the data.
    ignored = ("dataset_infos.json", "dataset_info.json", "state.json")
    return sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES) and file.name not in ignored)


def _split_of(file: epath.Path) -> str:
    match = _SPLIT.match(file.name) or _SPLIT.match(file.parent.name)
    return match[1].lower() if match else ""


def _parquet_blocks(path: epath.Path, *, limit: int, columns: Sequence[str]) -> list[RowBlock]:
    try:
        with path.open("rb") as binary:
            file = pyarrow.parquet.ParquetFile(binary)
            names, sizes = (
                file.schema_arrow.names,
                [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)],
            )
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"--input = {str(path)!r}: expected a readable Parquet file ({_one_line(error)})") from None
    missing = [column for column in columns if column not in names]
    require(not missing, "--input", str(path), f"the columns of this source, without {', '.join(missing)}")
    blocks, left = [], limit or sum(sizes)
    for group, size in enumerate(sizes):
        rows = min(size, left)
        left -= rows
        parts = 1 if limit else min(MAX_PARTS, math.ceil(rows / ROWS_A_BLOCK))
        counts = [len(_rows_of_part(rows, part, parts)) for part in range(parts)]
        blocks += [RowBlock(str(path), count, group=group, part=part, parts=parts) for part, count in enumerate(counts)]
    return [block for block in blocks if block.rows]


def _rows_of_part(rows: int, part: int, parts: int) -> list[int]:
    """Numbers of the rows, in a row group of `rows`, whose batch belongs to the part."""
    return [row for row in range(rows) if row // ROWS_A_BLOCK % parts == part]


def _read_parquet(path: epath.Path, block: RowBlock) -> Iterator[tuple[str, object] | DamagedRow]:
    """Yield the rows of a block; where decoding fails, what is left of the block is damaged."""
    done = 0
    with path.open("rb") as binary:
        try:
            batches = pyarrow.parquet.ParquetFile(binary).iter_batches(ROWS_A_BLOCK, row_groups=[block.group])
            for index, batch in enumerate(batches):
                if index % block.parts != block.part:
                    continue
                for value in batch.to_pylist()[: block.rows - done]:
                    yield _row_name(path, block, done), value
                    done += 1
                if done == block.rows:
                    return
        except (pyarrow.ArrowException, OSError) as error:
            # Arrow reports damaged pages as an OSError too, without a number; a disk or a network has one.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            for row in range(done, block.rows):
                yield DamagedRow(_row_name(path, block, row), "broken_row_group", _one_line(error))


def _row_name(path: epath.Path, block: RowBlock, index: int) -> str:
    """Name the row with that index in the block by file, row group and number in the group."""
    batch, rest = divmod(index, ROWS_A_BLOCK)
    return f"{path.name}/{block.group}:{(batch * block.parts + block.part) * ROWS_A_BLOCK + rest}"


def _line_blocks(path: epath.Path, *, limit: int) -> list[RowBlock]:
    """Divide the lines that are not blank into blocks; a gzip file, which can only be read in full, becomes one."""
    blocks: list[RowBlock] = []
    count = offset = 0
    with _open_lines(path) as lines:
        for line in lines:
            if limit and count >= limit:
                break
            if line.strip():
                if path.suffix == ".gz" and blocks:
                    blocks[-1] = dataclasses.replace(blocks[-1], rows=blocks[-1].rows + 1)
                elif count % ROWS_A_BLOCK == 0:
                    blocks.append(RowBlock(str(path), 1, first=count, offset=offset))
                else:
                    blocks[-1] = dataclasses.replace(blocks[-1], rows=blocks[-1].rows + 1)
                count += 1
            offset += len(line)
    return blocks


def _read_lines(path: epath.Path, block: RowBlock) -> Iterator[tuple[str, object] | DamagedRow]:
    done = 0
    with _open_lines(path) as lines:
        lines.seek(block.offset)
        # Lines end at line feeds and nowhere else: U+2028 and U+0085 may stand inside the strings of a JSON text.
        for line in lines:
            if not line.strip():
                continue
            name = f"{path.name}:{block.first + done + 1}"
            try:
                yield name, json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                yield DamagedRow(name, "not_json", _one_line(error))
            done += 1
            if done == block.rows:
                return


def _open_lines(path: epath.Path):
    return gzip.open(path.open("rb")) if path.suffix == ".gz" else path.open("rb")


def _json_rows(path: epath.Path) -> list[object]:
    """Read the rows of one JSON text: a list, or an object of rows by name."""
    with _open_lines(path) as file:
        try:
            value = json.loads(file.read().decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"--input = {str(path)!r}: expected JSON ({_one_line(error)})") from None
    rows = list(value.values()) if isinstance(value, dict) else value
    require(isinstance(rows, list), "--input", str(path), "a JSON list of rows, or an object of rows by name")
    return rows


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
