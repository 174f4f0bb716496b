"""Files of rows: every row comes out once, whatever the layout of the directory, and what is damaged is counted."""

import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest

from beam_pipelines.sources.row_files import DamagedRow, find_row_files, make_blocks, read_block
from optimrl_jax.jobs.errors import UserError


def write_rows(path, numbers, *, row_group_size=17):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"n": number, "text": "é" * number} for number in numbers]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=row_group_size)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".jsonl":
        path.write_text(text)
    else:
        path.write_text(json.dumps(rows))
    return path


def read_numbers(path, *, split="", limit=0):
    blocks = make_blocks(find_row_files(str(path), split), limit=limit)
    rows = [row for block in blocks for row in read_block(block)]
    assert sum(block.rows for block in blocks) == len(rows)
    assert len({row.name if isinstance(row, DamagedRow) else row[0] for row in rows}) == len(rows)
    return sorted(row[1]["n"] for row in rows if not isinstance(row, DamagedRow))


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.jsonl.gz", "a.json"])
@pytest.mark.parametrize("limit", [0, 1, 5, 20, 41])
def test_every_row_is_read_once_up_to_the_limit(tmp_path, name, limit):
    path = write_rows(tmp_path / name, range(40))
    assert read_numbers(path, limit=limit) == list(range(min(limit or 40, 40)))


def test_a_limit_is_met_over_several_files(tmp_path):
    write_rows(tmp_path / "0.parquet", range(20))
    write_rows(tmp_path / "1.parquet", range(20, 40))
    assert read_numbers(tmp_path, limit=23) == list(range(23))


def test_blank_lines_are_no_rows(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"n": 1}\n  \n\n{"n": 2}\n\n')
    assert read_numbers(path) == [1, 2]


def test_many_parts_of_a_row_group_add_up(tmp_path):
    path = write_rows(tmp_path / "a.parquet", range(333), row_group_size=500)
    blocks = make_blocks([*find_row_files(str(path), "")], limit=0)
    assert len(blocks) == 16
    assert read_numbers(path) == list(range(333))


def test_a_hubs_repository_is_read_by_its_split(tmp_path):
    for number, split in enumerate(("train", "valid", "test")):
        for shard in range(2):
            name = f"{split}-0000{shard}-of-00002.parquet"
            write_rows(tmp_path / "data" / name, [10 * number + shard])
    assert read_numbers(tmp_path, split="valid") == [10, 11]
    assert read_numbers(tmp_path / "data", split="train") == [0, 1]
    assert read_numbers(tmp_path, split="all") == [0, 1, 10, 11, 20, 21]
    with pytest.raises(UserError, match="--split = '': expected one of test, train, valid, all"):
        find_row_files(str(tmp_path), "")


def test_a_folder_a_split_and_numbered_parts_of_a_split_are_splits(tmp_path):
    write_rows(tmp_path / "folders" / "train" / "0.parquet", [1])
    write_rows(tmp_path / "folders" / "test" / "0.parquet", [2])
    assert read_numbers(tmp_path / "folders", split="test") == [2]
    write_rows(tmp_path / "numbered" / "test.jsonl", [1])
    write_rows(tmp_path / "numbered" / "test2.jsonl", [2])
    assert read_numbers(tmp_path / "numbered") == [1, 2]


def test_of_several_configurations_one_has_to_be_named(tmp_path):
    write_rows(tmp_path / "default" / "train-0.parquet", [1])
    write_rows(tmp_path / "verifiable" / "train-0.parquet", [2])
    with pytest.raises(UserError, match="expected one configuration, with its folder: default, verifiable"):
        find_row_files(str(tmp_path), "train")
    assert read_numbers(tmp_path / "verifiable") == [2]


def test_rows_of_a_damaged_row_group_are_counted_one_by_one_and_others_are_read(tmp_path):
    path = write_rows(tmp_path / "a.parquet", [5000] * 3 + [5001] * 3, row_group_size=3)
    content = bytearray(path.read_bytes())
    first = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(1)
    start = first.dictionary_page_offset or first.data_page_offset
    content[start : start + first.total_compressed_size] = bytes(first.total_compressed_size)
    path.write_bytes(content)
    rows = [row for block in make_blocks([*find_row_files(str(path), "")], limit=0) for row in read_block(block)]
    assert [row.reason for row in rows if isinstance(row, DamagedRow)] == ["broken_row_group"] * 3
    assert [row[1]["n"] for row in rows if not isinstance(row, DamagedRow)] == [5001] * 3


def test_a_file_that_vanishes_ends_the_job(tmp_path):
    for name in ("a.parquet", "a.jsonl"):
        path = write_rows(tmp_path / name, range(3))
        blocks = make_blocks([*find_row_files(str(path), "")], limit=0)
        path.unlink()
        with pytest.raises(FileNotFoundError):
            list(read_block(blocks[0]))


@pytest.mark.parametrize("make", [lambda path: path.write_bytes(b"PAR1 broken"), lambda path: None])
def test_a_broken_or_missing_parquet_file_is_one_line(tmp_path, make):
    make(tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"--input = .*: expected"):
        make_blocks(find_row_files(str(tmp_path / "a.parquet"), ""), limit=0)


def test_a_parquet_file_with_other_columns_is_one_line(tmp_path):
    path = write_rows(tmp_path / "a.parquet", range(3))
    with pytest.raises(UserError, match="expected the columns of this source, without description"):
        make_blocks([*find_row_files(str(path), "")], limit=0, columns=("n", "description"))
