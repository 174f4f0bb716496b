"""Edge: turns a command line into validated settings, and every mistake of the user into one line and exit code 2.

Two kinds of job start here. `run_job` is for jobs that read a configuration: `--config=FILE[:ROW]` names it,
`--config.field=value` changes a field, `--workdir` is where the job reads and writes. `run_command` is for jobs that
parse their few flags themselves, with `ArgumentParser`. Both end with the same exit codes (`errors`).
"""

import argparse
import dataclasses
import logging
import pathlib
import signal
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence

from absl import flags
from ml_collections import config_flags

from optimrl_jax.errors import UserError, exit_code
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.config_files import with_installed_files
from optimrl_jax.jobs.user_paths import writable_directory
from optimrl_jax.settings import Settings


@dataclasses.dataclass(frozen=True)
class Job:
    """What a job needs to start.

    Attributes:
      settings: the validated settings, of the class that `run_job` was given.
      workdir: an existing, writable directory.
      options: the job's own flags by name; empty where a flag was not given.
      arguments: the whole command line after the name of the program.
    """

    settings: Settings
    workdir: pathlib.Path
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    arguments: tuple[str, ...] = ()


class ArgumentParser(argparse.ArgumentParser):
    """An argument parser that raises UserError instead of printing its usage and leaving."""

    def error(self, message: str) -> typing.NoReturn:
        raise UserError(message)


def run_command(job: Callable[[Sequence[str]], object], argv: Sequence[str] | None = None, *, name: str) -> int:
    """Run a job that parses its own flags and return its exit code, see `errors`.

    Args:
      job: takes the arguments after the program's name.
      argv: those arguments; None: those of this process.
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
) -> int:
    """Run a job with the settings of the command line and return its exit code.

    0 on success; 2 with one line on standard error for a mistake of the user (unknown flag, unknown field, bad value,
    missing directory, broken or empty dataset); 130 after an interrupt. A fault of our own keeps its traceback.

    Args:
      job: takes the parsed command line.
      argv: the command line with the program's name; None: that of this process.
      kind: the settings class that the configuration is checked against.
      dry_run: started instead of `job` by the flag `--dry_run`, which only jobs that have one know.
      options: flags of this job alone, each with its meaning.
    """
    arguments = with_installed_files(sys.argv if argv is None else argv)
    # `force`, because libraries put handlers of their own on the root logger when they are imported.
    logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
    for library in ("jax", "absl", "orbax"):
        logging.getLogger(library).setLevel(logging.WARNING)

    def run() -> None:
        parsed, is_dry = _parse(arguments, kind, options, has_dry_run=dry_run is not None)
        (dry_run if is_dry and dry_run else job)(parsed)

    return _run_to_exit_code(run, name=pathlib.Path(arguments[0]).stem)


def _run_to_exit_code(run: Callable[[], object], *, name: str) -> int:
    # A supervisor's SIGTERM ends a job the way Ctrl-C does: workers are closed, the last checkpoint stays behind, and
    # nothing half-written looks whole.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run()
    except UserError as error:
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt as error:
        print("interrupted: start the same command again to go on", file=sys.stderr)
        return exit_code(error)
    return 0


def _parse(arguments: Sequence[str], kind: type, options: Mapping[str, str], *, has_dry_run: bool) -> tuple[Job, bool]:
    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", None, "configuration file", flag_values=values, sys_argv=list(arguments))
    flags.DEFINE_string("workdir", None, "directory the job reads and writes", flag_values=values)
    if has_dry_run:
        flags.DEFINE_bool("dry_run", False, "print shapes, memory and time of a step, then stop", flag_values=values)
    for name, meaning in options.items():
        flags.DEFINE_string(name, "", meaning, flag_values=values)
    try:
        rest = values(list(arguments))
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError, OSError, ImportError, SyntaxError) as error:
        raise UserError(_first_line(error)) from None
    if len(rest) > 1:
        raise UserError(f"unexpected argument {rest[1]!r}: expected only flags (--config=FILE --workdir=DIRECTORY)")
    config = _plain_values(values["config"])
    if not values["workdir"].value:
        raise UserError("--workdir: expected a directory for this job's output")
    job = Job(
        settings=freeze(kind, config),
        workdir=writable_directory(values["workdir"].value, "--workdir"),
        options={name: values[name].value for name in options},
        arguments=tuple(arguments[1:]),
    )
    return job, has_dry_run and values["dry_run"].value


def _plain_values(flag: flags.Flag) -> dict:
    try:
        config = flag.value
        if config is None:
            raise UserError("--config: expected a configuration file, such as configs/quickstart.py")
        # A file that failed to load answers only here, at the first use of its fields.
        return config.to_dict()
    except OSError:
        name = config_flags.get_config_filename(flag)
        raise UserError(f"--config = {name!r}: expected a configuration file that can be loaded") from None


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
