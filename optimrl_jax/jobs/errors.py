"""Errors that the user can fix, and the exit codes of a job that ends with one.

Standard library alone, so that every package may import it (`sandbox`, which imports nothing of ours, has a twin). A
mistake of the user is reported in one line, `field = value: expected ...`; a fault of our own keeps its traceback.
"""

EXIT_FAULT = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
# As of a program that SIGPIPE ends: whoever read standard output has had enough.
EXIT_NO_READER = 141


class UserError(ValueError):
    """Something that the user can fix: a missing directory, a broken record, an empty dataset. One line of text."""


class SettingsError(UserError):
    """A setting that cannot be used. One line of text: `field = value: expected ...`."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of a job that ends with this error: 2 for the user's mistake, 130 after Ctrl-C, else 1."""
    if isinstance(error, UserError):
        return EXIT_USER_ERROR
    return EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else EXIT_FAULT


def require(condition: bool, field: str, value: object, expected: str) -> None:
    """Raise UserError unless a condition holds.

    Args:
      condition: what has to hold.
      field: the flag or setting at fault.
      value: what it was given.
      expected: what was expected, in words; the message is `field = value: expected ...`.
    """
    if not condition:
        raise UserError(f"{field} = {value!r}: expected {expected}")
