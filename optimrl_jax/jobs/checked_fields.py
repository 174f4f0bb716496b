"""Dataclass fields that carry their meaning, unit and check, and the one way from plain values to a checked instance.

Standard library alone. A settings class is a frozen dataclass whose fields are made by `setting` and `section`;
`freeze` builds one from nested plain values (a ConfigDict, parsed flags, JSON) and raises `SettingsError` in one line,
`field = value: expected ...`; `thaw` goes the other way.
"""

import dataclasses
import difflib
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping

from optimrl_jax.jobs.errors import SettingsError

Check = tuple[Callable[[typing.Any], bool], str]

POSITIVE: Check = (lambda value: value > 0, "a positive number")
NOT_NEGATIVE: Check = (lambda value: value >= 0, "a number that is not negative")
SHARE: Check = (lambda value: 0 <= value <= 1, "a share in [0, 1]")
OPEN_SHARE: Check = (lambda value: 0 <= value < 1, "a share in [0, 1)")
POSITIVE_SHARE: Check = (lambda value: 0 < value <= 1, "a share above 0, at most 1")
INNER_SHARE: Check = (lambda value: 0 < value < 1, "a share between 0 and 1")
PERCENT: Check = (lambda value: 0 <= value <= 100, "a percentage")
# What JAX and Grain take for a seed: of a larger one JAX would use the last 32 bits.
SEED: Check = (lambda value: 0 <= value < 1 << 32, "a whole number in [0, 4294967295]")
# Waiting: clocks and sockets count in types that end; nobody waits a year.
WAIT_S: Check = (lambda value: 0 < value <= 31_536_000, "positive seconds, at most a year")
NAME: Check = (lambda value: bool(value), "a text that is not empty")
PORT: Check = (lambda value: 0 <= value <= 65_535, "a port in [0, 65535]")
URL: Check = (lambda value: not value or value.startswith(("http://", "https://")), "http(s)://host:port, or nothing")
ADDRESS: Check = (lambda value: not value or bool(re.fullmatch(r".+:\d+", value)), "host:port, or nothing")
EVEN: Check = (lambda value: value > 0 and value % 2 == 0, "a positive even number")
TEXTS: Check = (lambda value: all(isinstance(text, str) and text for text in value), "texts that are not empty")
ANY: Check = (lambda value: True, "")


class HasFields(typing.Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: typing.ClassVar[dict[str, dataclasses.Field[typing.Any]]]


Kind = typing.TypeVar("Kind", bound=HasFields)


def one_of(*choices: object) -> Check:
    """Build the check of a value that has to be one of `choices`."""
    return (lambda value: value in choices, f"one of {', '.join(map(str, choices))}")


def at_most(most: float) -> Check:
    """Build the check of a positive number that is not above `most`."""
    return (lambda value: 0 < value <= most, f"a positive number, at most {most}")


def setting(default: typing.Any, meaning: str, check: Check = ANY) -> typing.Any:
    """Declare a dataclass field that carries its meaning and its check.

    Args:
      default: value of the field where none is given; not checked.
      meaning: one phrase with the unit, for `--help` and messages.
      check: (predicate, what it expects in words).
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "check": check})


def section(kind: type) -> typing.Any:
    """Declare a dataclass field that is itself a settings class, with the defaults of `kind`."""
    return dataclasses.field(default_factory=kind)


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Suggest the choice that is spelt most like `name`, for the end of a message.

    Returns:
      `; did you mean 'X'?`, or an empty text where nothing comes near.
    """
    near = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near else ""


def freeze(kind: type[Kind], values: Mapping[str, typing.Any], *, path: str = "") -> Kind:
    """Build and check a settings class from nested plain values; fields that are not given keep their defaults.

    Args:
      kind: the settings class.
      values: plain values by field; a section is a mapping itself. Lists become tuples, whole numbers serve as floats.
      path: what stands before the name of a field in messages, such as `grpo.` or `--`.

    Raises:
      SettingsError: naming the first field that is unknown, of the wrong type, not finite or out of range.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    checked = {}
    for name, value in values.items():
        if name not in fields:
            choices = ", ".join(fields)
            raise SettingsError(
                f"{path}{name} = {value!r}: expected one of the fields {choices}{did_you_mean(name, fields)}"
            )
        if dataclasses.is_dataclass(hints[name]):
            checked[name] = freeze(hints[name], value, path=f"{path}{name}.")
        else:
            checked[name] = _checked(hints[name], value, fields[name], f"{path}{name}")
    return kind(**checked)


def thaw(settings: typing.Any) -> dict[str, typing.Any]:
    """Convert a settings instance to a nested dict of plain values: what `freeze` takes and `summary.json` records."""
    return dataclasses.asdict(settings)


def flatten(values: Mapping[str, typing.Any], path: str = "") -> dict[str, typing.Any]:
    """Flatten nested values to their dotted names, such as `grpo.steps`."""
    found = {}
    for name, value in values.items():
        found |= flatten(value, f"{path}{name}.") if isinstance(value, dict) else {f"{path}{name}": value}
    return found


def _checked(hint: typing.Any, value: object, field: dataclasses.Field, name: str) -> object:
    value = _typed(hint, value, name)
    accepts, expected = field.metadata["check"]
    if not accepts(value):
        raise SettingsError(f"{name} = {value!r}: expected {expected} ({field.metadata['meaning']})")
    return value


def _typed(hint: typing.Any, value: object, name: str) -> object:
    if isinstance(hint, types.GenericAlias):
        return _typed_items(typing.get_args(hint), value, name)
    # A bool is an int in Python, but where a number is expected it is a mistake.
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise SettingsError(f"{name} = {value!r}: expected a value of type {hint.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(f"{name} = {value!r}: expected a finite number")
    return value


def _typed_items(kinds: tuple[typing.Any, ...], value: object, name: str) -> tuple[object, ...]:
    """Check the items of a tuple: each of its own kind, or any number of one kind where an ellipsis follows it."""
    if not isinstance(value, list | tuple):
        raise SettingsError(f"{name} = {value!r}: expected a tuple")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    if len(value) != len(kinds):
        raise SettingsError(f"{name} = {value!r}: expected a tuple of {len(kinds)}")
    return tuple(_typed(kind, item, f"{name}[{at}]") for at, (kind, item) in enumerate(zip(kinds, value, strict=True)))
