"""Edge: turns the command line of a dataset job into checked options, and a caller's mistake into one line.

Flags of ours come first; everything else must be an option that Apache Beam knows, so that a misspelt flag is caught.
"""

import argparse
import pathlib
import signal
import sys
from collections.abc import Callable, Sequence

from apache_beam.options import pipeline_options

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130


class UserError(ValueError):
    """Something the caller can mend: an unknown source, a missing file, an empty dataset. One line."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UserError instead of printing its usage and leaving."""

    def error(self, message: str) -> None:
        raise UserError(message)


def run_job(job: Callable[[Sequence[str]], object], argv: Sequence[str] | None = None, *, name: str) -> int:
    """Runs a job with the arguments after the program's name and returns its exit code.

    0 on success, 2 with one line on standard error for a caller's mistake, 130 after an interrupt. A fault of our own
    keeps its traceback.
    """
    # A supervisor's SIGTERM ends a job the way Ctrl-C does: workers are closed and nothing half-written looks whole.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        job(list(sys.argv[1:] if argv is None else argv))
    except UserError as error:
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_MISTAKE
    except KeyboardInterrupt:
        print("interrupted: start the same command again to go on", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def beam_options(arguments: Sequence[str]) -> pipeline_options.PipelineOptions:
    """The Beam options among `arguments`; raises UserError for a flag that Beam does not know either."""
    parser = Parser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    for kind in _subclasses(pipeline_options.PipelineOptions):
        if "_add_argparse_args" in vars(kind):
            kind._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        raise UserError(f"unknown flag {unknown[0]!r}: expected one of this job (--help) or of Apache Beam")
    return pipeline_options.PipelineOptions(list(arguments), save_main_session=False)


def _subclasses(kind: type) -> list[type]:
    direct = kind.__subclasses__()
    return direct + [deeper for child in direct for deeper in _subclasses(child)]


def require(condition: bool, field: str, value: object, expected: str) -> None:
    """Raises UserError in the house form `field = value: expected ...` unless `condition` holds."""
    if not condition:
        raise UserError(f"{field} = {value!r}: expected {expected}")


def existing(path: str, field: str, *, is_directory: bool = False) -> pathlib.Path:
    """The path if it is there and of the right kind; raises UserError otherwise."""
    found = pathlib.Path(path)
    kind = "directory" if is_directory else "file"
    require(bool(path) and (found.is_dir() if is_directory else found.is_file()), field, path, f"an existing {kind}")
    return found
