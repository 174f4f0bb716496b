"""Edge: finds the configuration files of an installed package.

A checkout has them in `configs`; a wheel carries the same folder as `optimrl_jax.configs`. What lies in the current
directory comes first, so that a file of one's own may have the name of one of ours.
"""

import importlib
import importlib.util
import pathlib
import sys
from collections.abc import Sequence

FOLDER = "configs"
INSTALLED = "optimrl_jax.configs"


def with_installed_files(arguments: Sequence[str]) -> list[str]:
    """Return a command line in which `--config=configs/X.py[:ROW]` names a file that exists, if only installed.

    Where no package `configs` can be imported, the installed one stands for it, so that `from configs import base`
    works in our files and in the user's.
    """
    folder = _installed_folder()
    if folder is None:
        return list(arguments)
    named = [_is_config_flag(before, argument) for before, argument in zip(["", *arguments], arguments, strict=False)]
    resolved = [_resolved(text, folder) if is_named else text for is_named, text in zip(named, arguments, strict=True)]
    if resolved != list(arguments) or importlib.util.find_spec(FOLDER) is None:
        sys.modules.setdefault(FOLDER, importlib.import_module(INSTALLED))
    return resolved


def _installed_folder() -> pathlib.Path | None:
    spec = importlib.util.find_spec(INSTALLED)
    return pathlib.Path(spec.origin).parent if spec and spec.origin else None


def _is_config_flag(before: str, argument: str) -> bool:
    return before in ("--config", "-config") or argument.startswith(("--config=", "-config="))


def _resolved(argument: str, folder: pathlib.Path) -> str:
    flag, equals, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
    name, colon, row = value.partition(":")
    path = pathlib.Path(name)
    installed = folder / path.name
    if path.exists() or path.parts[:-1] != (FOLDER,) or not installed.exists():
        return argument
    return f"{flag}{equals}{installed}{colon}{row}"
