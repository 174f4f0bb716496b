"""Edge: files that are whole or not there: written beside their place and moved into it."""

import json
import pathlib
import typing
from collections.abc import Mapping


def write_text(path: pathlib.Path, text: str) -> None:
    """Replaces a file at once: a reader finds the old text or the new one, also after a kill."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)


def write_json(path: pathlib.Path, values: Mapping[str, typing.Any]) -> None:
    """Replaces a file at once by an indented JSON object."""
    write_text(path, json.dumps(values, indent=2) + "\n")
