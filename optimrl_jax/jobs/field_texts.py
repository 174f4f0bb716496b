"""Settings as text: fields set from a command line, and every field as `--help` shows it.

Pure. The types are those of the settings classes (`checked_fields`), so that a text is never guessed at.
"""

import ast
import dataclasses
import types
import typing
from collections.abc import Iterator

from optimrl_jax.jobs.checked_fields import did_you_mean
from optimrl_jax.jobs.errors import SettingsError

FALSE, TRUE = ("false", "no", "0"), ("true", "yes", "1")
TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false"}


class FieldText(typing.NamedTuple):
    """One field as text.

    Attributes:
      name: with its sections, such as `grpo.steps`.
      default: as Python writes it.
      meaning: with unit and range.
    """

    name: str
    default: str
    meaning: str


def set_field(values: dict[str, typing.Any], kind: type, name: str, text: str | None) -> None:
    """Set a field of nested plain values from text, in place.

    Args:
      values: plain values of `kind`.
      kind: the settings class.
      name: the field with its sections, such as `grpo.steps`.
      text: its value; None stands for `true`.

    Raises:
      SettingsError: for an unknown field, naming the one that is spelt most like it, or a text of another type.
    """
    *sections, last = name.split(".")
    for depth, section in enumerate(sections):
        kind = _hint(kind, section, ".".join(sections[:depth]))
        values = values.setdefault(section, {})
        if not dataclasses.is_dataclass(kind):
            raise SettingsError(f"--config.{name}: expected a field, but {section} has no parts")
    hint = _hint(kind, last, ".".join(sections))
    if dataclasses.is_dataclass(hint):
        raise SettingsError(
            f"--config.{name}: expected one of its fields, such as {name}.{dataclasses.fields(hint)[0].name}"
        )
    values[last] = _parsed(hint, "true" if text is None else text, name)


def takes_no_text(kind: type, name: str) -> bool:
    """Tell whether `--config.NAME` alone switches the field of that name on: whether it is a boolean."""
    for part in name.split("."):
        hints = typing.get_type_hints(kind)
        kind = hints.get(part, str)
        if not dataclasses.is_dataclass(kind):
            return kind is bool
    return False


def field_texts(kind: type, *, path: str = "") -> Iterator[FieldText]:
    """Yield the text of every field of a settings class, in the order in which `--help` shows them.

    Args:
      kind: the settings class.
      path: what stands before the names, such as `grpo.`.
    """
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from field_texts(hints[field.name], path=f"{path}{field.name}.")
        else:
            _, expected = field.metadata["check"]
            meaning = field.metadata["meaning"] + (f" ({expected})" if expected else "")
            yield FieldText(f"{path}{field.name}", repr(field.default), meaning)


def _hint(kind: type, name: str, path: str) -> typing.Any:
    hints = typing.get_type_hints(kind)
    if name not in hints:
        place = f" of {path}" if path else ""
        dot = f"{path}." if path else ""
        near = did_you_mean(name, hints)
        raise SettingsError(f"--config.{dot}{name}: expected one of the fields{place}: {', '.join(hints)}{near}")
    return hints[name]


def _parsed(hint: typing.Any, text: str, name: str) -> object:
    if hint is str:
        return text
    try:
        if hint is bool:
            return _boolean(text)
        if isinstance(hint, types.GenericAlias):
            return ast.literal_eval(text)
        return hint(text)
    except (ValueError, SyntaxError):
        expected = "a tuple, as Python writes it" if isinstance(hint, types.GenericAlias) else TYPE_NAMES[hint]
        raise SettingsError(f"--config.{name} = {text!r}: expected {expected}") from None


def _boolean(text: str) -> bool:
    if text.lower() not in FALSE + TRUE:
        raise ValueError(text)
    return text.lower() in TRUE
