"""Strict reading and canonical writing of messages: frozen dataclasses with a JSON form. Pure.

One parser for both sides of the border: a client that builds a message in Python and a server that reads one from JSON
refuse the same things with the same words. Unknown fields, missing fields and values of another type (a number in
place of a text, `true` in place of 1) are mistakes, and the error names field, value and what was expected.
"""

import dataclasses
import enum
import functools
import json
import math
import types
import typing

SHOWN_CHARACTERS = 120


class InvalidRequestError(ValueError):
    """A caller's mistake; the message names field, value and what was expected."""


def require(condition: bool, field: str, value: object, expected: str) -> None:
    """Raise InvalidRequestError with the message `field = value: expected ...` unless `condition` holds."""
    if not condition:
        shown = repr(value)
        if len(shown) > SHOWN_CHARACTERS:
            shown = f"{shown[:SHOWN_CHARACTERS]}..."
        raise InvalidRequestError(f"{field} = {shown}: expected {expected}")


class DataclassLike(typing.Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: typing.ClassVar[dict[str, dataclasses.Field[typing.Any]]]


Message = typing.TypeVar("Message", bound=DataclassLike)


def to_json(message: DataclassLike) -> str:
    """Return the canonical JSON of a dataclass: sorted keys, no spaces, ASCII, so that equal values hash equally."""
    return json.dumps(dataclasses.asdict(message), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def from_json(kind: type[Message], text: str | bytes) -> Message:
    """Read a message of the given kind from JSON.

    Args:
      kind: a dataclass.
      text: one JSON object with the fields of `kind`.

    Returns:
      The message, validated.

    Raises:
      InvalidRequestError: no JSON, a field that is unknown or missing, or a value out of its range; it names the field.
    """
    return from_dict(kind, parse_json(text, kind.__name__))


def parse_json(text: str | bytes, name: str) -> object:
    """Parse JSON; `name` says in the error what the text should have been.

    Raises:
      InvalidRequestError: the text is not JSON, or nested too deep to be read.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"{name}: expected JSON, got {str(error)[:SHOWN_CHARACTERS]!r}") from None


def from_dict(kind: type[Message], value: object, *, path: str = "") -> Message:
    """Build a message from parsed JSON; lists become tuples.

    Args:
      kind: a dataclass.
      value: what was parsed.
      path: what the fields' names begin with in errors, such as "limits."; empty for the message itself.

    Raises:
      InvalidRequestError: unknown or missing fields, or values of a wrong type or out of their range.
    """
    require(isinstance(value, dict), path.rstrip(".") or kind.__name__, value, "an object")
    assert isinstance(value, dict)  # For the type checker: the line above has raised otherwise.
    hints = _hints(kind)
    for name in value:
        require(name in hints, f"{path}{name}", value[name], f"only the fields {', '.join(hints)}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name, field in fields.items():
        is_optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        require(name in value or is_optional, f"{path}{name}", None, "a value: the field is required")
    return kind(**{name: conform(hints[name], item, f"{path}{name}") for name, item in value.items()})


def conform_fields(message: DataclassLike, *, path: str = "") -> None:
    """Check every field of a message against its annotation, from within `__post_init__`; lists become tuples.

    Raises:
      InvalidRequestError: a field is of a wrong type.
    """
    for name, hint in _hints(type(message)).items():
        object.__setattr__(message, name, conform(hint, getattr(message, name), f"{path}{name}"))


def conform(hint: typing.Any, item: object, path: str) -> typing.Any:
    """Return a value in the form that an annotation asks for.

    Args:
      hint: a class, `tuple[X, ...]`, `dict[str, X]`, or a union of these.
      item: the value: parsed from JSON, or given by a caller in Python.
      path: name of the field in errors.

    Raises:
      InvalidRequestError: the value is of another type.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _conform_union(arguments, item, path)
    if origin is tuple:
        require(isinstance(item, tuple | list), path, item, f"a list, each item {_words(arguments[0])}")
        return tuple(conform(arguments[0], part, f"{path}[{n}]") for n, part in enumerate(typing.cast(list, item)))
    if origin is dict:
        is_object = isinstance(item, dict) and all(isinstance(key, str) for key in item)
        require(is_object, path, item, f"an object, each value {_words(arguments[1])}")
        return {key: conform(arguments[1], part, f"{path}.{key}") for key, part in typing.cast(dict, item).items()}
    if dataclasses.is_dataclass(hint) and not isinstance(item, typing.cast(type, hint)):
        return from_dict(typing.cast(type, hint), item, path=f"{path}.")
    if isinstance(hint, type) and issubclass(hint, enum.Enum) and not isinstance(item, hint):
        is_member = item in [member.value for member in hint]
        require(is_member, path, item, f"one of {', '.join(str(member.value) for member in hint)}")
        return hint(item)
    require(_is_a(hint, item), path, item, _words(hint))
    return item


def _conform_union(choices: tuple[typing.Any, ...], item: object, path: str) -> object:
    """Conform to the choice of a union that the value is made for: an object to a message, a list to a tuple."""
    for choice in choices:
        takes_object = dataclasses.is_dataclass(choice) or typing.get_origin(choice) is dict
        is_shaped = (
            isinstance(item, dict)
            if takes_object
            else isinstance(item, tuple | list)
            if typing.get_origin(choice) is tuple
            else _is_a(choice, item)
        )
        if is_shaped or (dataclasses.is_dataclass(choice) and isinstance(item, typing.cast(type, choice))):
            return conform(choice, item, path)
    require(False, path, item, " or ".join(dict.fromkeys(map(_words, choices))))
    return None


def _is_a(hint: typing.Any, item: object) -> bool:
    """Tell whether a plain value is of a plain type, as JSON has them: `true` is no number, and 1 is a fine float."""
    if hint is float:
        return isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item)
    if hint is int:
        return isinstance(item, int) and not isinstance(item, bool)
    return isinstance(item, hint)


_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", types.NoneType: "null"}


def _words(hint: typing.Any) -> str:
    """Name a type for people."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(dict.fromkeys(map(_words, arguments)))
    return _WORDS.get(hint, "a list" if origin is tuple else "an object")


@functools.cache
def _hints(kind: type) -> dict[str, typing.Any]:
    """Return the annotations of a dataclass's fields, in their order."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
