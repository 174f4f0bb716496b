"""Edge: finds a configuration file, runs it and returns its plain values; an error names the file and line it is in.

A checkout has the files in `configs`; a wheel carries the same folder as `optimrl_jax.configs`. The current directory
comes first, so that a file of the user's may have the name of one of ours.
"""

import contextlib
import importlib
import importlib.util
import pathlib
import sys
import traceback
import types
import typing
from collections.abc import Iterator

import ml_collections

from optimrl_jax.jobs.checked_fields import did_you_mean, thaw
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.settings import Settings

FOLDER = "configs"
INSTALLED = "optimrl_jax.configs"


def default_config() -> ml_collections.ConfigDict:
    """Return all settings at their defaults, locked: assigning to a misspelt field raises at its line."""
    return ml_collections.ConfigDict(thaw(Settings())).lock()


def load_values(name: str) -> dict[str, typing.Any]:
    """Run a configuration file and return its values.

    Args:
      name: `FILE` or `FILE:ROW`, for `get_config()` or `get_config(ROW)` of that file.

    Returns:
      Nested plain values.

    Raises:
      UserError: if there is no such file, or it fails; with the file, the line and what went wrong.
    """
    file, _, row = name.partition(":")
    path = _find(file)
    with _place_told(path):
        get_config = getattr(_run(path), "get_config", None)
        if get_config is None:
            raise UserError(f"--config = {name!r}: expected a file with a function get_config()")
        config = get_config(row) if row else get_config()
        # A ConfigDict, or the plain nested dict that it stands for.
        return config if isinstance(config, dict) else config.to_dict()


def rows_of(name: str) -> tuple[str, ...]:
    """Return the rows that `FILE:ROW` can name: `ROWS` of that file, empty where it has none.

    Raises:
      UserError: if there is no such file, or it fails.
    """
    path = _find(name.partition(":")[0])
    with _place_told(path):
        return tuple(getattr(_run(path), "ROWS", ()))


@contextlib.contextmanager
def _place_told(path: pathlib.Path) -> Iterator[None]:
    """Report what a configuration file raises as UserError with the file, the line and the message."""
    try:
        yield
    except UserError:
        raise
    except SyntaxError as error:
        raise UserError(f"{error.filename}, line {error.lineno}: {error.msg}") from None
    # The file is the user's: whatever it raises is reported with its line, for the user to fix.
    except Exception as error:  # noqa: BLE001
        raise UserError(f"{_place(error, path)}: {type(error).__name__}: {error}") from None


def _find(file: str) -> pathlib.Path:
    path = pathlib.Path(file)
    installed = _installed_folder()
    if installed is not None and (not path.is_file() or importlib.util.find_spec(FOLDER) is None):
        # Lets `from configs import base` work in our files and the user's where only the wheel is installed.
        sys.modules.setdefault(FOLDER, importlib.import_module(INSTALLED))
    if path.is_file():
        return path
    if installed is not None and path.parts[:-1] == (FOLDER,) and (installed / path.name).is_file():
        return installed / path.name
    folder = installed or path.parent
    known = [f"{FOLDER}/{other.name}" for other in folder.glob("[!_]*.py")]
    raise UserError(f"--config = {file!r}: expected an existing configuration file{did_you_mean(file, known)}")


def listing_command() -> str:
    """Return the command that lists configurations and rows from the current directory, checkout or not."""
    is_installed_alone = _installed_folder() is not None and importlib.util.find_spec(FOLDER) is None
    return f"python -m {INSTALLED if is_installed_alone else FOLDER}"


def _installed_folder() -> pathlib.Path | None:
    spec = importlib.util.find_spec(INSTALLED)
    return pathlib.Path(spec.origin).parent if spec and spec.origin else None


def _run(path: pathlib.Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UserError(f"--config = {str(path)!r}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _place(error: BaseException, path: pathlib.Path) -> str:
    """Name the place of an error, `FILE, line N`.

    That is its innermost step in the file, or the innermost of all where none is in it.
    """
    steps = traceback.extract_tb(error.__traceback__)
    own = [step for step in steps if pathlib.Path(step.filename).resolve() == path.resolve()]
    step = (own or steps)[-1]
    return f"{path if own else step.filename}, line {step.lineno}"
