"""The dataset card that lies beside a dataset: what it is, where it comes from, under which licences. Pure.

The header is YAML as dataset hubs read it: splits, features, size, licence, and where the files of each split lie.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow_datasets as tfds
import yaml

from beam_pipelines.options import BuildOptions

FeatureTypes = Mapping[str, tuple[str, int]]

# Source -> the identifier of its licence, and what has to be said about it.
LICENCES = {
    "mini": ("apache-2.0", "Original problems and programs that ship with this package, under its own licence."),
    "code_contests": (
        "cc-by-4.0",
        "CodeContests is published by DeepMind under CC BY 4.0; problem statements and solutions belong to their "
        "authors and to the contest sites that collected them.",
    ),
    "code_contests_plus": (
        "cc-by-4.0",
        "CodeContests+ is published by ByteDance under CC BY 4.0, on top of CodeContests (CC BY 4.0); statements and "
        "solutions belong to their authors and contest sites.",
    ),
    "taco": ("apache-2.0", "TACO is published by BAAI under Apache 2.0; its sources have licences of their own."),
    "apps": ("mit", "APPS is published under MIT; statements and solutions belong to the sites they come from."),
    "live_code_bench": ("other", "The terms of LiveCodeBench and of the contest sites that it collects from hold."),
    "codeforces": ("cc-by-4.0", "Published by open-r1 under CC BY 4.0; statements belong to Codeforces' authors."),
    "jsonl": ("other", "Whatever the file's owner grants; the builder of the dataset has to say so."),
    "packages": ("other", "The `license` field of each problem package holds."),
    "polygon": ("other", "Whatever the packages' authors grant; the builder of the dataset has to say so."),
}
# As dataset hubs name them; limits are exclusive.
SIZE_CATEGORIES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))

_TEXT = """# {name} ({source})

Programming problems with tests that separate fast correct programs from slow ones, verified reference programs with
measured durations on every test, and incorrect programs as negative controls.

| split | problems |
|---|---|
{splits}

`filterable` is rl_train and rl_test together, `cleaned` is everything; both are further names for the same files.

## How it was built

Revision {revision}, options in `manifest.json`. Stages: {stages}. Expected outputs of added tests are those on which
at least two verified solutions agree; no model wrote an output.

## Durations

Seconds of wall time of the program alone, {repeats} measurements on optimization tests and one on the others, under:
{measured_under}. Compare them with durations of another host only after a calibration.

## Licences

{licence}

## Limits

Labels are as good as the tests: a program that passes every test here may still be wrong. Problems with several right
outputs are removed where solutions disagree, not where all of them happen to agree.
"""


def license_of(options: BuildOptions) -> str:
    """Return the identifier of a build's licence: the one that its options name, else that of its source.

    Raises:
      KeyError: the options name none, and the source is unknown.
    """
    return options.license or LICENCES[options.source][0]


def feature_types(features: tfds.features.FeaturesDict) -> dict[str, tuple[str, int]]:
    """Return name -> (type, number of dimensions) of TFDS features, texts as `string`."""
    return {name: (_type_name(feature.np_dtype), len(feature.shape)) for name, feature in features.items()}


def _type_name(dtype: object) -> str:
    # TFDS declares what it gives here wider than NumPy's names for types, which it is.
    return "string" if dtype in (np.str_, np.object_) else str(np.dtype(dtype))  # pyrefly: ignore[no-matching-overload]


def hub_header(
    manifest: Mapping,
    *,
    features: FeatureTypes,
    sizes: Mapping[str, int],
    data_files: Mapping[str, str] | None = None,
) -> str:
    """Write the YAML header of a card, between its two lines of dashes.

    Args:
      manifest: what `manifest.json` says: options and problems by split.
      features: name -> (type, number of dimensions) of every column.
      sizes: split -> bytes of its examples.
      data_files: split -> where its files lie, as a pattern below the card; None where they are not of a kind that hubs
        read.
    """
    options, splits = manifest["options"], manifest["splits"]
    problems = sum(splits.values())
    header = {
        "pretty_name": options["name"],
        "license": options["license"] or LICENCES[options["source"]][0],
        "language": ["en"],
        "task_categories": ["text-generation"],
        "tags": ["code", "code-optimization", "competitive-programming"],
        "size_categories": [next((name for limit, name in SIZE_CATEGORIES if problems < limit), "n>1M")],
        "version": options["version"],
        "dataset_info": {
            "features": [_feature(name, *kind) for name, kind in features.items()],
            "splits": [
                {"name": name, "num_bytes": sizes[name], "num_examples": count} for name, count in splits.items()
            ],
        },
    }
    if options["homepage"]:
        header["homepage"] = options["homepage"]
    if data_files:
        paths = [{"split": split, "path": path} for split, path in data_files.items()]
        header["configs"] = [{"config_name": "default", "data_files": paths}]
    return f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n\n"


def without_header(text: str) -> str:
    """Return a card's text without its YAML header."""
    return text.split("\n---\n", 1)[1].lstrip("\n") if text.startswith("---\n") else text


def _feature(name: str, kind: str, dimensions: int) -> dict[str, object]:
    if not dimensions:
        return {"name": name, "dtype": kind}
    inner: object = kind
    for _ in range(dimensions - 1):
        inner = {"sequence": inner}
    return {"name": name, "sequence": inner}


def dataset_card(manifest: Mapping, *, stages: Sequence[str]) -> str:
    """Write the Markdown text of the card, without its header.

    Args:
      manifest: what `manifest.json` says.
      stages: names of the stages, in order.
    """
    options = manifest["options"]
    under = "; ".join(", ".join(f"{k} {v}" for k, v in state.items()) for state in manifest["measured_under"])
    return _TEXT.format(
        name=options["name"],
        source=options["source"],
        splits="\n".join(f"| {name} | {count} |" for name, count in manifest["splits"].items()),
        revision=manifest["revision"],
        stages=", ".join(stages),
        repeats=options["repeats"],
        measured_under=under or "an unnamed service",
        licence=LICENCES[options["source"]][1],
    )
