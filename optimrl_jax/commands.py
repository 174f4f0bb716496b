"""Edge: turns a command line into validated settings, and every mistake of the caller into one line and exit code 2.

All jobs of this package start through `run_job`: `--config` names a configuration file, `--config.field=value` changes
a field, `--workdir` is where the job reads and writes.
"""

import dataclasses
import logging
import pathlib
import signal
import sys
import types
from collections.abc import Callable, Mapping, Sequence

from absl import flags
from ml_collections import config_flags

from optimrl_jax import settings as settings_lib

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130


class UserError(ValueError):
    """Something the caller can mend: a missing directory, a broken record, an empty dataset. One line."""


@dataclasses.dataclass(frozen=True)
class Job:
    """What a job needs to start: its validated settings and an existing, writable workdir.

    `options` are its own flags by name, `arguments` the whole command line after the name of the program.
    """

    settings: settings_lib.Settings
    workdir: pathlib.Path
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    arguments: tuple[str, ...] = ()


def run_job(
    job: Callable[[Job], object],
    argv: Sequence[str] | None = None,
    *,
    kind: type = settings_lib.Settings,
    dry_run: Callable[[Job], object] | None = None,
    options: Mapping[str, str] = types.MappingProxyType({}),
) -> int:
    """Runs a job with the settings of the command line and returns the exit code.

    A job with a `dry_run` has the flag `--dry_run`, which starts that instead. `options` names the flags of this job
    alone, each with its meaning; one that is not given is empty.

    0 on success, 2 with one line on standard error for a caller's mistake (unknown flag, unknown field, bad value,
    missing directory, broken or empty dataset), 130 after an interrupt. A fault of our own keeps its traceback.
    """
    arguments = list(sys.argv if argv is None else argv)
    # `force`, because libraries put handlers of their own on the root logger when they are imported.
    logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
    for library in ("jax", "absl", "orbax"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # A supervisor's SIGTERM ends a job the way Ctrl-C does, so that both leave the last checkpoint behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        parsed, is_dry = _parse(arguments, kind, options, has_dry_run=dry_run is not None)
        (dry_run if is_dry else job)(parsed)
    except (UserError, settings_lib.SettingsError) as error:
        print(f"{pathlib.Path(arguments[0]).stem}: {' '.join(str(error).split())}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt as error:
        print("interrupted: start the same command again to go on", file=sys.stderr)
        return exit_code(error)
    return 0


def exit_code(error: BaseException) -> int:
    """The exit code of a job that ends with this error, see `run_job`."""
    if isinstance(error, UserError | settings_lib.SettingsError):
        return EXIT_MISTAKE
    return EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


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
    config = _loaded(values["config"])
    if not values["workdir"].value:
        raise UserError("--workdir: expected a directory for this job's output")
    settings = settings_lib.freeze(kind, config)
    job = Job(
        settings=settings,
        workdir=_writable(values["workdir"].value),
        options={name: values[name].value for name in options},
        arguments=tuple(arguments[1:]),
    )
    return job, has_dry_run and values["dry_run"].value


def _loaded(flag: flags.Flag) -> dict:
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


def _writable(name: str) -> pathlib.Path:
    path = pathlib.Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--workdir = {name!r}: expected a directory that can be made ({error.strerror})") from None
    return path
