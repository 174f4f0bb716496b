"""Edge: files and directories that the user names, checked where they enter."""

import os
import pathlib

from optimrl_jax.jobs.errors import UserError, require


def existing_path(name: str, field: str, *, is_directory: bool = False) -> pathlib.Path:
    """Return the path of that name if it is there and of the right kind.

    Args:
      name: path of a file or directory; empty counts as missing.
      field: the flag or setting that carries the name, for the message.
      is_directory: whether a directory is expected instead of a file.

    Raises:
      UserError: if nothing of that kind is there.
    """
    path = pathlib.Path(name)
    kind = "directory" if is_directory else "file"
    require(bool(name) and (path.is_dir() if is_directory else path.is_file()), field, name, f"an existing {kind}")
    return path


def writable_directory(name: str, field: str) -> pathlib.Path:
    """Return the directory of that name, creating it with its parents if need be.

    Args:
      name: path of the directory.
      field: the flag or setting that carries the name, for the message.

    Raises:
      UserError: if it has no name, cannot be created, or nothing can be written into it.
    """
    require(bool(name), field, name, "a directory")
    path = pathlib.Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{field} = {name!r}: expected a directory that can be made ({error.strerror})") from None
    require(os.access(path, os.W_OK | os.X_OK), field, name, "a directory that can be written")
    return path
