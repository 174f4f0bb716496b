"""Edge: files that are whole or not there: written beside their place and moved into it."""

import json
import math
import pathlib
import typing
from collections.abc import Mapping


def write_text(path: pathlib.Path, text: str) -> None:
    """Replaces a file at once: a reader finds the old text or the new one, also after a kill."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)


def write_json(path: pathlib.Path, values: Mapping[str, typing.Any]) -> None:
    """Replace a file at once by an indented JSON object, null where a number is not finite."""
    write_text(path, json.dumps(finite_or_none(values), indent=2, allow_nan=False) + "\n")


def finite_or_none(value: typing.Any) -> typing.Any:
    """Return the same nested values with None in place of nan and infinities."""
    if isinstance(value, Mapping):
        return {name: finite_or_none(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_none(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
