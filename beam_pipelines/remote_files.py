"""Edge: files wherever `epath` reaches them: on this host, or in a bucket (gs://, s3://) whose library is installed.

Directories of a bucket are prefixes of names: they need not be made, and are walked level by level.
"""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator

from etils import epath

from optimrl_jax.jobs.errors import UserError, require

SCHEMES = ("gs://", "s3://", "az://", "hf://")


def is_remote(name: epath.PathLike) -> bool:
    """Tell whether a name is that of something in a bucket."""
    return str(name).startswith(SCHEMES)


def reachable_path(name: str, field: str) -> epath.Path:
    """Return the path of that name, local or remote, whether anything is there or not.

    Args:
      name: of a file or directory.
      field: the flag that carries the name, for the message.

    Raises:
      UserError: no library reaches such an address.
    """
    expected = f"a local path or one that begins with {', '.join(SCHEMES)}"
    require("://" not in name or is_remote(name), field, name, expected)
    path = epath.Path(name)
    try:
        path.exists()
    except ImportError as error:
        raise UserError(f"{field} = {name!r}: expected the package that reaches it ({error})") from None
    return path


def existing_place(name: str, field: str, *, is_directory: bool = False) -> epath.Path:
    """Return the path of that name if it is there and of the right kind, here or in a bucket.

    Args:
      name: path of a file or directory; empty counts as missing.
      field: the flag that carries the name, for the message.
      is_directory: whether a directory is expected instead of a file.

    Raises:
      UserError: nothing of that kind is there, or no library reaches the address.
    """
    path = reachable_path(name, field)
    kind, is_there = ("directory", path.is_dir) if is_directory else ("file", path.is_file)
    require(bool(name) and is_there(), field, name, f"an existing {kind}")
    return path


def files_below(path: epath.Path) -> Iterator[epath.Path]:
    """Yield the files of a directory at any depth, in order; of a file, itself; of nothing, nothing."""
    if path.is_dir():
        for child in sorted(path.iterdir()):
            # Some stores list a directory among its own children.
            if child != path:
                yield from files_below(child)
    elif path.exists():
        yield path


def copy_files(source: epath.Path, target: epath.Path) -> None:
    """Copy all files below a directory to the same places below another one, over what is there."""
    for path in files_below(source):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.copy(place, overwrite=True)


@contextlib.contextmanager
def local_directory(name: epath.PathLike) -> Iterator[pathlib.Path]:
    """Lend a directory as one of this host: itself, or a copy of a remote one that goes when the block ends."""
    if not is_remote(name):
        yield pathlib.Path(name)
        return
    with tempfile.TemporaryDirectory(prefix="optimrl-copy-") as folder:
        copy = pathlib.Path(folder) / epath.Path(name).name
        copy.mkdir()
        copy_files(epath.Path(name), epath.Path(copy))
        yield copy
