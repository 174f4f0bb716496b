"""Edge: `python -m beam_pipelines.export_parquet --dataset=D --output=DIR`: the dataset as Parquet, a file a split.

For tools that read no ArrayRecord, and for hubs: `datasets.load_dataset(DIR)` finds the splits by the card beside them.
Names and types are those of the examples; matrices are lists of rows. `--variant=light` keeps a part of each problem.
"""

import json
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow
import pyarrow.parquet
import tensorflow_datasets as tfds

from beam_pipelines.dmc_optim.dmc_optim_dataset_builder import VIEWS
from beam_pipelines.dmc_optim.features import light_example
from beam_pipelines.inspect_dataset import finished_dataset
from beam_pipelines.report import card
from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.jobs.user_paths import existing_path, writable_directory

# An example carries all tests and programs of its problem: a few of them already make a large row group.
ROWS_A_GROUP = 16


def main(arguments: Sequence[str]) -> None:
    """Export a finished dataset as Parquet.

    Args:
      arguments: what follows the program's name on the command line.

    Raises:
      UserError: there is no finished dataset, no output directory, or a split is empty.
    """
    parser = ArgumentParser(prog="export_parquet", description="Writes a dataset as Parquet files.", allow_abbrev=False)
    parser.add_argument("--dataset", default="", help="directory that build_dataset wrote")
    parser.add_argument("--output", default="", help="directory for one Parquet file a split")
    parser.add_argument(
        "--variant",
        default="full",
        choices=("full", "light"),
        help="light: one solution of each label and no optimization tests",
    )
    values = parser.parse_args(arguments)
    builder = finished_dataset(existing_path(values.dataset, "--dataset", is_directory=True))
    output = writable_directory(values.output, "--output")
    counts = {}
    for split in sorted(set(builder.info.splits) - set(VIEWS)):
        path = output / f"{split}.parquet"
        counts[split] = export_split(builder, split, path=path, is_light=values.variant == "light")
        print(f"{output / split}.parquet: {counts[split]} problems")
    write_card(pathlib.Path(values.dataset), output, counts=counts, info=builder.info)


def write_card(
    dataset: pathlib.Path, output: pathlib.Path, *, counts: Mapping[str, int], info: tfds.core.DatasetInfo
) -> None:
    """Write the dataset's card beside the Parquet files, with a header that says which file holds which split.

    Without it, hubs guess splits from file names, and would call rl_train train.

    Args:
      dataset: directory that `build_dataset` wrote.
      output: directory of the Parquet files.
      counts: problems of each exported split.
      info: features and sizes of the dataset.
    """
    manifest = json.loads((dataset / "manifest.json").read_text()) | {"splits": dict(counts)}
    header = card.hub_header(
        manifest,
        features=card.feature_types(info.features),
        sizes={split: int(info.splits[split].num_bytes) for split in counts},
        data_files={split: f"{split}.parquet" for split in counts},
    )
    (output / "README.md").write_text(header + card.without_header((dataset / "README.md").read_text()))


def export_split(builder: tfds.core.DatasetBuilder, split: str, *, path: pathlib.Path, is_light: bool = False) -> int:
    """Write one split as a Parquet file, a few rows at a time.

    The file appears under its name only once it is whole.

    Args:
      builder: reader of the dataset.
      split: name of the split.
      path: the file; its directory must exist.
      is_light: whether each problem is reduced as `features.light_example` does.

    Returns:
      How many problems the split has.

    Raises:
      UserError: the split is empty.
    """
    rows, writer, temporary = 0, None, path.with_suffix(".part")
    for batch in _batches(builder.as_data_source(split=split), is_light=is_light):
        table = pyarrow.Table.from_pylist(batch, schema=arrow_schema(builder.info.features))
        writer = writer or pyarrow.parquet.ParquetWriter(temporary, table.schema, compression="zstd")
        writer.write_table(table)
        rows += len(batch)
    if writer is None:
        raise UserError(f"split {split!r}: expected at least one problem, found none")
    writer.close()
    temporary.rename(path)
    return rows


def arrow_schema(features: Mapping[str, tfds.features.FeatureConnector]) -> pyarrow.Schema:
    """Return the Arrow schema of TFDS features: strings, numbers, and one level of lists per dimension."""
    return pyarrow.schema([(name, _type(feature)) for name, feature in features.items()])


def _type(feature: tfds.features.FeatureConnector) -> pyarrow.DataType:
    dtype = feature.np_dtype
    found = pyarrow.string() if dtype in (np.str_, np.object_) else pyarrow.from_numpy_dtype(dtype)
    for _ in feature.shape:
        found = pyarrow.list_(found)
    return found


def _batches(source: Sequence[Mapping], *, is_light: bool) -> Iterator[list[dict]]:
    for first in range(0, len(source), ROWS_A_GROUP):
        indices = range(first, min(first + ROWS_A_GROUP, len(source)))
        rows = (light_example(source[index]) if is_light else source[index] for index in indices)
        yield [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: object) -> object:
    """Turn bytes into text and arrays into lists."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [text.decode("utf-8", "replace") for text in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


if __name__ == "__main__":
    sys.exit(run_command(main, name="export_parquet"))
