"""Edge: functions of the user that a setting names: `FILE.py:FUNCTION`, or `package.module:FUNCTION`.

A job reads the file once. It is the user's code and runs with the rights of the job, unlike the programs of a policy.
"""

import functools
import hashlib
import importlib
import importlib.util
import pathlib
import typing
from collections.abc import Callable

from optimrl_jax.jobs.checked_fields import did_you_mean
from optimrl_jax.jobs.errors import UserError


def names_function(text: str) -> bool:
    """Tell whether a setting names a function of the user instead of one of ours."""
    return ":" in text


def function_identity(text: str) -> str:
    """Return what tells a function from another: the text that names it, with the hash of the file where that is one.

    Args:
      text: `FILE.py:FUNCTION` or `package.module:FUNCTION`; empty where there is none.
    """
    path = pathlib.Path(text.rpartition(":")[0])
    if path.suffix != ".py" or not path.is_file():
        return text
    return f"{text}@{hashlib.sha256(path.read_bytes()).hexdigest()}"


@functools.cache
def load_function(text: str, field: str) -> Callable[..., typing.Any]:
    """Import the function that a setting names; the same text is imported once.

    Args:
      text: `FILE.py:FUNCTION` or `package.module:FUNCTION`.
      field: the setting, for messages.

    Raises:
      UserError: if there is no such file, module or function, or it fails as it is read.
    """
    source, _, name = text.rpartition(":")
    if not source or not name:
        raise UserError(f"{field} = {text!r}: expected FILE.py:FUNCTION or package.module:FUNCTION")
    path = pathlib.Path(source)
    if path.suffix == ".py" and not path.is_file():
        raise UserError(f"{field} = {text!r}: expected an existing file {source}")
    try:
        if path.suffix == ".py":
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(source)
    # Whatever the user's file raises is the user's to fix.
    except Exception as error:  # noqa: BLE001
        raise UserError(f"{field} = {text!r}: {type(error).__name__}: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise UserError(f"{field} = {text!r}: expected a function {name} in {source}{did_you_mean(name, vars(module))}")
    return function
