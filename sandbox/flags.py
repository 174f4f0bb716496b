"""Edge: the flags of this package's commands: usage as it was typed, a mistake as one line and exit code 2."""

import argparse
import pathlib
import sys
import typing

CONSOLE_PREFIX = "optimrl-"


class FlagParser(argparse.ArgumentParser):
    """A parser whose usage begins with what started this process, and whose errors are one line.

    Args:
      module: of the command, such as `sandbox.server`.
      about: its docstring, shown as it is laid out.
      options: further ones of `argparse.ArgumentParser`.
    """

    def __init__(self, module: str, about: str | None, **options: typing.Any) -> None:
        # A console command runs its module in place of itself, which hides its name from `sys.argv`.
        script = pathlib.Path(sys.orig_argv[1]).name if len(sys.orig_argv) > 1 else ""
        super().__init__(
            prog=script if script.startswith(CONSOLE_PREFIX) else f"python -m {module}",
            description=(about or "").removeprefix("Edge: "),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **options,
        )
        self._module = module

    def error(self, message: str) -> typing.NoReturn:
        """Leave with code 2 and one line on standard error."""
        self.exit(2, f"{self._module}: {message} (--help lists all flags)\n")


def named_path(text: str) -> pathlib.Path:
    """Read a path from a flag; an empty one is a mistake and not the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, found nothing")
    return pathlib.Path(text)


def one_line(error: Exception) -> str:
    """Tell an error that the caller can mend: of a file, `PATH: what is wrong with it`."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
