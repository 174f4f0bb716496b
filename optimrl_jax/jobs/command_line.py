"""Edge: turns a command line into validated settings, and every mistake of the user into one line and exit code 2.

Two kinds of job start here. `run_job` is for jobs that read a configuration: `--config=FILE[:ROW]` names it,
`--config.field=value` changes a field, `--workdir` is where the job reads and writes. `run_command` is for jobs that
parse their few flags themselves, with `ArgumentParser`. Both end with the same exit codes (`errors`).
"""

import argparse
import contextlib
import dataclasses
import errno
import logging
import os
import pathlib
import select
import signal
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence

from optimrl_jax.jobs.checked_fields import did_you_mean, flatten, freeze
from optimrl_jax.jobs.config_files import listing_command, load_values, rows_of
from optimrl_jax.jobs.errors import EXIT_NO_READER, UserError, exit_code
from optimrl_jax.jobs.field_texts import field_texts, set_field, takes_no_text
from optimrl_jax.jobs.user_paths import writable_directory
from optimrl_jax.settings import Settings

HELP_FLAGS = {"--help", "-h", "--helpfull"}
CONSOLE_PREFIX = "optimrl-"
# A place of the user's that cannot be used: no right to it, a full or read-only disk, a file for a directory.
UNUSABLE_PLACE = {
    errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EISDIR,
    errno.ENAMETOOLONG, errno.ENOSPC, errno.ENOTDIR, errno.EROFS,
}  # fmt: skip
OUT_OF_MEMORY, DISK_FULL = "RESOURCE_EXHAUSTED", os.strerror(errno.ENOSPC)
SMALLER = "expected settings that ask for less (--dry_run of train and sft counts what a step takes)"
OUR_PACKAGES = ("optimrl_jax", "beam_pipelines", "configs")


@dataclasses.dataclass(frozen=True)
class Job:
    """What a job needs to start.

    Attributes:
      settings: the validated settings, of the class that `run_job` was given.
      workdir: an existing directory for the job's output.
      options: the job's own flags by name; empty where a flag was not given.
      arguments: the whole command line after the name of the program.
    """

    settings: Settings
    workdir: pathlib.Path
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    arguments: tuple[str, ...] = ()


class _HelpFormatter(argparse.HelpFormatter):
    """Shows the default of every flag that has one, behind its meaning."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        has_default = action.option_strings and action.default not in (None, "", argparse.SUPPRESS)
        return text + " (default: %(default)s)" if has_default and "%(default)" not in text else text


class ArgumentParser(argparse.ArgumentParser):
    """An argument parser that raises UserError instead of printing its usage and leaving; its help shows defaults.

    Its usage begins with the command that started this process, and with `prog` where that is none of ours.
    """

    def __init__(self, *args: typing.Any, **options: typing.Any) -> None:
        super().__init__(*args, **options)
        self.prog = typed_command(self.prog)
        self.formatter_class = _HelpFormatter

    def error(self, message: str) -> typing.NoReturn:
        """Raise UserError with argparse's message."""
        raise UserError(message)


def run_command(job: Callable[[Sequence[str]], object], argv: Sequence[str] | None = None, *, name: str) -> int:
    """Run a job that parses its own flags and return its exit code, see `errors`.

    Args:
      job: called with the arguments after the program's name.
      argv: those arguments; those of this process if None.
      name: what the one line on standard error begins with.
    """
    return _run_to_exit_code(lambda: job(list(sys.argv[1:] if argv is None else argv)), name=name)


def run_job(
    job: Callable[[Job], object],
    argv: Sequence[str] | None = None,
    *,
    kind: type = Settings,
    dry_run: Callable[[Job], object] | None = None,
    options: Mapping[str, str] = types.MappingProxyType({}),
    only_reads: bool = False,
) -> int:
    """Run a job with the settings of the command line and return its exit code.

    0 on success; 2 with one line on standard error for a mistake of the user (unknown flag, unknown field, bad value,
    missing directory, broken or empty dataset); 130 after an interrupt. A fault of our own keeps its traceback.

    Args:
      job: called with the parsed command line.
      argv: the command line with the program's name; that of this process if None.
      kind: the settings class that the configuration is checked against.
      dry_run: called instead of `job` under the flag `--dry_run`; without it the job does not know that flag.
      options: flags of this job alone, each with its meaning.
      only_reads: whether the job writes nothing into its workdir, which then need not be writable.
    """
    arguments = list(sys.argv if argv is None else argv)
    log_to_terminal()
    name = pathlib.Path(arguments[0]).stem
    if HELP_FLAGS & set(arguments):
        lines = (sys.modules[job.__module__].__doc__ or "").strip().splitlines()
        parser = _parser(options, has_dry_run=dry_run is not None)
        about = "".join(lines[:1]).removeprefix("Edge: ")
        parser.prog, parser.description = typed_command(name), about[:1].upper() + about[1:]
        return _run_to_exit_code(lambda: _print_help(parser, arguments[1:], kind), name=name)

    def run() -> None:
        parsed, is_dry = _parse(arguments[1:], kind, options, has_dry_run=dry_run is not None, only_reads=only_reads)
        (dry_run if is_dry and dry_run else job)(parsed)

    return _run_to_exit_code(run, name=name)


def typed_command(otherwise: str) -> str:
    """Return what the user typed to start this process: `optimrl-train`, or `python -m optimrl_jax.train`.

    Args:
      otherwise: returned where another program runs the job, such as a test.
    """
    # A console command runs its module in place of itself, which hides its name from `sys.argv`.
    script = pathlib.Path(sys.orig_argv[1]).name if len(sys.orig_argv) > 1 else ""
    if script.startswith(CONSOLE_PREFIX):
        return script
    started = getattr(sys.modules["__main__"], "__spec__", None)
    module = started.name.removesuffix(".__main__") if started else ""
    return f"python -m {module}" if module.partition(".")[0] in OUR_PACKAGES else otherwise


def log_to_terminal() -> None:
    """Show what commands log as plain lines, and of libraries only warnings."""
    # `force`, because libraries put handlers of their own on the root logger when they are imported.
    logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
    for library in ("jax", "absl", "orbax", "httpx"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _run_to_exit_code(run: Callable[[], object], *, name: str) -> int:
    # A supervisor's SIGTERM ends a job the way Ctrl-C does: workers are closed, the last checkpoint stays behind, and
    # nothing half-written looks whole.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _mendable_errors_told():
            run()
            sys.stdout.flush()
    except UserError as error:
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt as error:
        print("interrupted: start the same command again to go on", file=sys.stderr)
        return exit_code(error)
    except BrokenPipeError:
        if not _reader_has_gone():
            raise
        # What is still to be flushed has no reader either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_NO_READER
    return 0


def _reader_has_gone() -> bool:
    """Tell whether standard output is a pipe whose reader, such as `head`, has ended."""
    poll = select.poll()
    poll.register(sys.stdout, 0)
    return bool(poll.poll(0))


@contextlib.contextmanager
def _mendable_errors_told() -> Iterator[None]:
    """Report a place that cannot be used, and memory that is not there, as UserError: both are the user's to mend."""
    try:
        yield
    except MemoryError as error:
        raise UserError(f"out of memory ({error}): {SMALLER}") from None
    except RuntimeError as error:
        # JAX and Beam raise these; this module needs neither.
        if DISK_FULL in str(error):
            raise UserError(str(error).splitlines()[-1]) from None
        if OUT_OF_MEMORY not in str(error):
            raise
        raise UserError(f"{str(error).splitlines()[0]}: {SMALLER}") from None
    except OSError as error:
        if error.errno not in UNUSABLE_PLACE or not (error.filename or error.errno == errno.ENOSPC):
            raise
        raise UserError(f"{error.filename or 'a disk'}: expected a place that can be used ({error.strerror})") from None


def _parse(
    arguments: Sequence[str], kind: type, options: Mapping[str, str], *, has_dry_run: bool, only_reads: bool
) -> tuple[Job, bool]:
    parser = _parser(options, has_dry_run=has_dry_run)
    flags, rest = parser.parse_known_args(list(arguments))
    changes = list(_field_changes(rest, kind, known_flags=[f"--{name}" for name in vars(flags)]))
    if not flags.config:
        raise UserError("--config: expected a configuration file, such as configs/quickstart.py")
    values = load_values(flags.config)
    for name, text in changes:
        set_field(values, kind, name, text)
    if not flags.workdir:
        raise UserError("--workdir: expected a directory for this job's output")
    job = Job(
        settings=freeze(kind, values),
        workdir=pathlib.Path(flags.workdir) if only_reads else writable_directory(flags.workdir, "--workdir"),
        options={name: getattr(flags, name) for name in options},
        arguments=tuple(arguments),
    )
    return job, has_dry_run and flags.dry_run


def _parser(options: Mapping[str, str], *, has_dry_run: bool) -> ArgumentParser:
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    about = f"configuration file ({listing_command()})"
    parser.add_argument("--config", default="", metavar="FILE[:ROW]", help=about)
    parser.add_argument("--workdir", default="", metavar="DIRECTORY", help="directory the job reads and writes")
    if has_dry_run:
        meaning = "print shapes, memory and time of a step, then stop"
        parser.add_argument("--dry_run", action="store_true", help=meaning)
    for name, meaning in options.items():
        parser.add_argument(f"--{name}", default="", help=meaning.replace("%", "%%"))
    return parser


def _field_changes(rest: Sequence[str], kind: type, *, known_flags: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each field that `--config.field=value`, or `--config.field value`, changes, with its text, in order."""
    left = list(rest)
    while left:
        flag, equals, text = left.pop(0).partition("=")
        if not flag.startswith("--config."):
            expected = "expected only flags (--config=FILE --config.FIELD=VALUE --workdir=DIRECTORY)"
            near = did_you_mean(flag, known_flags)
            raise UserError(f"unexpected argument {flag + equals + text!r}: {expected}{near}")
        name = flag.removeprefix("--config.")
        if equals or takes_no_text(kind, name):
            yield name, text if equals else None
        elif left:
            yield name, left.pop(0)
        else:
            raise UserError(f"{flag}: expected a value")


def _print_help(parser: ArgumentParser, arguments: Sequence[str], kind: type) -> None:
    """Print flags and fields; `--config=FILE[:ROW]` beside `--help` shows the rows of a file and what it sets."""
    parser.usage = f"{parser.prog} --config=FILE[:ROW] [--config.FIELD=VALUE ...] --workdir=DIRECTORY [flags]"
    print(parser.format_help())
    config = parser.parse_known_args([one for one in arguments if one not in HELP_FLAGS])[0].config
    values = flatten(load_values(config)) if config else {}
    if config:
        rows = rows_of(config)
        print(f"rows of {config.partition(':')[0]}, for --config=FILE:ROW:", ", ".join(rows) or "none", end="\n\n")
        print(f"fields, with the values of {config}:")
    else:
        print(f"configurations, and the rows of the paper: {listing_command()} [MODEL];")
        print("--help --config=FILE[:ROW] shows the rows of a file and what it sets\n")
        print("fields, with their defaults (a configuration may set others):")
    for field in field_texts(kind):
        shown = repr(values[field.name]) if field.name in values else field.default
        print(f"  --config.{field.name}={shown}\n      {field.meaning}")
