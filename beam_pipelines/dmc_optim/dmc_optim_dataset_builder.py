"""Edge: the TFDS builder `dmc_optim` (ArrayRecord, no TensorFlow): a finished build's problems become a dataset.

Three splits hold the examples: rl_train, rl_test and non_filterable; a build of tests alone has the one split
evaluation. The views `filterable` (rl_train and rl_test) and `cleaned` (everything) are further names for the same
files, so that they cost no storage.
"""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import shutil
from collections.abc import Collection, Iterator, Mapping

import tensorflow_datasets as tfds
from etils import epath

from beam_pipelines import storage
from beam_pipelines.dmc_optim import features

NAME = "dmc_optim"
VIEWS = {"filterable": ("rl_train", "rl_test"), "cleaned": ("rl_train", "rl_test", "non_filterable", "evaluation")}
DEFAULT_VERSION = "1.0.0"
# Incorrect programs are negative controls of the build and no training data.
TRAINING = ("rl_train", "rl_test")


@dataclasses.dataclass(frozen=True)
class AboutDataset:
    """A dataset's description of itself in its metadata.

    Attributes:
      name: for people.
      version: MAJOR.MINOR.PATCH.
      license: identifier of its licence, such as cc-by-4.0.
      homepage: address under which it is described; may be empty.
    """

    name: str = "DMC-Optim"
    version: str = DEFAULT_VERSION
    license: str = ""
    homepage: str = ""


class Builder(tfds.core.GeneratorBasedBuilder):
    """Reads the records under `records_directory` and puts each problem into the split that `splits` names."""

    VERSION = tfds.core.Version(DEFAULT_VERSION)
    RELEASE_NOTES = {DEFAULT_VERSION: ""}  # noqa: RUF012 (the name and the type are the library's)
    name = NAME

    def __init__(
        self,
        *,
        records_directory: str = "",
        splits: Mapping[str, str] | None = None,
        about: AboutDataset | None = None,
        pools: Mapping[str, Collection[str]] | None = None,
        is_light: bool = False,
        **kwargs: object,
    ) -> None:
        self._records_directory = records_directory
        self._pools = dict(pools or {})
        self._is_light = is_light
        self._splits = dict(splits or {})
        self._about = about or AboutDataset()
        # The version is that of what is published, not that of this class.
        self.VERSION = tfds.core.Version(self._about.version)
        self.RELEASE_NOTES = {self._about.version: self._about.name}
        super().__init__(**kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            homepage=self._about.homepage or None,
            license=self._about.license,
            features=features.example_features(),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        del dl_manager
        names = sorted({*self._splits.values(), *(name for name, ids in self._pools.items() if ids)})
        return {name: self._generate_examples(name) for name in names}

    def _generate_examples(self, split: str) -> Iterator[tuple[int, dict]]:
        has_incorrect = split not in TRAINING and split not in self._pools
        index = 0
        for problem in storage.read_problems(self._records_directory):
            if self._splits.get(problem.id) == split or problem.id in self._pools.get(split, ()):
                example = features.example_of(problem, has_incorrect=has_incorrect)
                yield index, features.light_example(example) if self._is_light else example
                index += 1


def prepare_dataset(
    output: pathlib.Path,
    *,
    records_directory: epath.PathLike,
    splits: Mapping[str, str],
    about: AboutDataset | None = None,
    pools: Mapping[str, Collection[str]] | None = None,
    is_light: bool = False,
) -> pathlib.Path:
    """Write the dataset below `output`, views included; an older one there is replaced.

    Args:
      output: directory of the build.
      records_directory: where the finished records of the problems lie.
      splits: problem id -> name of its split.
      about: what TFDS keeps of the dataset's name, version, licence and address.
      pools: further splits by name, each a set of problem ids; their examples are stored again.
      is_light: whether each problem keeps one solution of each label and no optimization tests.

    Returns:
      The directory of the dataset's files.
    """
    shutil.rmtree(output / NAME, ignore_errors=True)
    builder = Builder(
        data_dir=output,
        file_format="array_record",
        records_directory=str(records_directory),
        splits=splits,
        about=about,
        pools=pools,
        is_light=is_light,
    )
    tfds.disable_progress_bar()
    # The library announces its steps on standard output, which belongs to the tables of the job.
    with contextlib.redirect_stdout(io.StringIO()):
        builder.download_and_prepare(download_dir=output / "work" / "downloads")
    directory = pathlib.Path(builder.data_path)
    add_split_views(directory)
    return directory


def add_split_views(directory: pathlib.Path) -> None:
    """Add the views in VIEWS to a prepared dataset, as links to the shards of the splits that they unite.

    A view none of whose splits is there is left out.
    """
    path = directory / "dataset_info.json"
    info = json.loads(path.read_text())
    stored = {split["name"]: split for split in info["splits"]}
    for view, names in VIEWS.items():
        parts = [stored[name] for name in names if name in stored]
        if parts:
            info["splits"].append(_view(directory, view, parts))
    path.write_text(json.dumps(info, indent=2))


def _view(directory: pathlib.Path, view: str, parts: list[dict]) -> dict:
    counts = [(part["name"], len(part["shardLengths"])) for part in parts]
    shards = [(name, index, count) for name, count in counts for index in range(count)]
    for position, (name, index, count) in enumerate(shards):
        _link(directory / shard_name(name, index, count), directory / shard_name(view, position, len(shards)))
    return {
        "filepathTemplate": parts[0]["filepathTemplate"],
        "name": view,
        "numBytes": str(sum(int(part["numBytes"]) for part in parts)),
        "shardLengths": [length for part in parts for length in part["shardLengths"]],
    }


def dataset_bytes(directory: pathlib.Path) -> int:
    """Return the bytes that a dataset's directory takes; a file that several splits name counts once."""
    files = {stat.st_ino: stat.st_size for stat in (path.stat() for path in directory.iterdir())}
    return sum(files.values())


def split_bytes(directory: pathlib.Path) -> dict[str, int]:
    """Return the bytes of the examples of every split and view of a prepared dataset, by name."""
    info = json.loads((directory / "dataset_info.json").read_text())
    return {split["name"]: int(split["numBytes"]) for split in info["splits"]}


def shard_name(split: str, index: int, count: int) -> str:
    """Return the name of a shard's file as TFDS spells it: shard `index`, from 0, of `count`."""
    return f"{NAME}-{split}.array_record-{index:05d}-of-{count:05d}"


def _link(source: pathlib.Path, target: pathlib.Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        # Some file systems have no hard links; a copy is the same to every reader.
        shutil.copyfile(source, target)
