"""Edge: files that are complete or absent: written beside their destination and moved into place."""

import json
import math
import pathlib
import typing
from collections.abc import Mapping


def write_text(path: pathlib.Path, text: str) -> None:
    """Replace a file at once: a reader finds the old text or the new one, even after a kill."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)


def write_json(path: pathlib.Path, values: Mapping[str, typing.Any]) -> None:
    """Replace a file at once by an indented JSON object, with null for numbers that are not finite."""
    write_text(path, json.dumps(finite_or_none(values), indent=2, allow_nan=False) + "\n")


def finite_or_none(value: typing.Any) -> typing.Any:
    """Return the same nested values with None in place of NaN and infinities, and lists in place of tuples."""
    if isinstance(value, Mapping):
        return {name: finite_or_none(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_none(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
