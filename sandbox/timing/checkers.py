"""Compares a program's output with the expected one, outside the container. Pure.

Checkers are named; a suite chooses one. Each takes (expected, produced) text and says whether they agree.
"""

import dataclasses
import functools
import math
import re
import string
from collections.abc import Callable

from sandbox.protocol import InvalidRequestError

Checker = Callable[[str, str], bool]

_FLOAT_NAME = re.compile(r"float_1e-(\d{1,2})")
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,4000}", re.ASCII)
_SPACES = re.compile(r"\s+")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_CODE_CONTESTS_TOLERANCE = 1e-5
_TOLERANCES = ("float_tolerance", "float_absolute_tolerance", "float_relative_tolerance")


def lines(expected: str, produced: str) -> bool:
    """Compare line by line, without trailing white space and trailing blank lines; CRLF equals LF.

    Space inside a line counts: "a  b" is not "a b", and "ab" is not "a b".
    """
    return _tidy(expected) == _tidy(produced)


def tokens(expected: str, produced: str) -> bool:
    """Compare as sequences of words; any run of white space separates words."""
    return expected.split() == produced.split()


def floats(expected: str, produced: str, *, tolerance: float) -> bool:
    """Compare word by word, numbers up to a tolerance; nan agrees with nothing, and infinities with themselves.

    Args:
      expected: the expected output.
      produced: the program's output.
      tolerance: largest difference that agrees, absolute below 1 and relative to the expected number from there on.
    """
    left, right = expected.split(), produced.split()
    return len(left) == len(right) and all(_close(a, b, tolerance) for a, b in zip(left, right, strict=True))


def code_contests(expected: str, produced: str) -> bool:
    """Compare as CodeContests does: words up to the case of ASCII letters, numbers up to 1e-5, white space aside.

    The tolerance is absolute. Whole numbers have to be equal digit by digit: as floating-point numbers, long ones that
    differ would look the same.
    """
    left, right = expected.split(), produced.split()
    return len(left) == len(right) and all(map(_words_match, left, right))


def _words_match(expected: str, produced: str) -> bool:
    if _lower_ascii(expected) == _lower_ascii(produced):
        return True
    if _WHOLE.fullmatch(expected) and _WHOLE.fullmatch(produced):
        return int(expected) == int(produced)
    left, right = _number(expected), _number(produced)
    return left is not None and right is not None and abs(left - right) <= _CODE_CONTESTS_TOLERANCE * (1 + 1e-9)


@dataclasses.dataclass(frozen=True)
class ProblemPackageChecker:
    """The default output validator of the problem package format (ICPC, Kattis), with its arguments.

    Outputs are compared token by token. With a tolerance, each token of the answer that is a number admits every number
    within the absolute or the relative tolerance; all other tokens have to be equal.

    Attributes:
      case_sensitive: whether upper and lower case ASCII letters differ.
      space_change_sensitive: whether kind and amount of white space matter.
      absolute: absolute tolerance, None for none.
      relative: tolerance relative to the number of the answer, None for none.
    """

    case_sensitive: bool = False
    space_change_sensitive: bool = False
    absolute: float | None = None
    relative: float | None = None

    def __call__(self, expected: str, produced: str) -> bool:
        """Return whether the output agrees with the answer."""
        if self.space_change_sensitive and _SPACES.findall(expected) != _SPACES.findall(produced):
            return False
        left, right = expected.split(), produced.split()
        return len(left) == len(right) and all(map(self._tokens_match, left, right))

    def _tokens_match(self, expected: str, produced: str) -> bool:
        if (self.absolute, self.relative) != (None, None) and (answer := _number(expected)) is not None:
            found = _number(produced)
            return found is not None and self._is_close(answer, found)
        return expected == produced if self.case_sensitive else _lower_ascii(expected) == _lower_ascii(produced)

    def _is_close(self, answer: float, found: float) -> bool:
        if not (math.isfinite(answer) and math.isfinite(found)):
            return answer == found
        allowed = max(self.absolute or 0.0, (self.relative or 0.0) * abs(answer))
        return abs(found - answer) <= allowed * (1 + 1e-9)


CHECKERS: dict[str, Checker] = {"lines": lines, "tokens": tokens, "code_contests": code_contests}
_FORMS = (
    f"{', '.join(CHECKERS)}, float_1e-N, or kattis[:case_sensitive][:space_change_sensitive]"
    "[:float_absolute_tolerance=E][:float_relative_tolerance=E]"
)


def checker_named(name: str) -> Checker:
    """Return the checker of a suite by its name.

    Args:
      name: `lines`, `tokens`, `code_contests`, `float_1e-N` with N from 1 to 99, or `kattis` followed by the arguments
        of the problem package format's default validator, as in `kattis:case_sensitive:float_tolerance=1e-6`.

    Raises:
      InvalidRequestError: no checker has this name.
    """
    if name in CHECKERS:
        return CHECKERS[name]
    match = _FLOAT_NAME.fullmatch(name)
    if match and int(match[1]) > 0:
        return functools.partial(floats, tolerance=10.0 ** -int(match[1]))
    kind, *arguments = name.split(":")
    if kind == "kattis" and (checker := _package_checker(arguments)):
        return checker
    raise InvalidRequestError(f"suite.checker = {name!r}: expected one of {_FORMS}")


def _package_checker(arguments: list[str]) -> ProblemPackageChecker | None:
    checker = ProblemPackageChecker()
    for argument in arguments:
        key, _, text = argument.partition("=")
        tolerance = _number(text)
        if argument == "case_sensitive":
            checker = dataclasses.replace(checker, case_sensitive=True)
        elif argument == "space_change_sensitive":
            checker = dataclasses.replace(checker, space_change_sensitive=True)
        elif key in _TOLERANCES and tolerance is not None and 0 <= tolerance < math.inf:
            absolute = checker.absolute if key == "float_relative_tolerance" else tolerance
            relative = checker.relative if key == "float_absolute_tolerance" else tolerance
            checker = dataclasses.replace(checker, absolute=absolute, relative=relative)
        else:
            return None
    return checker


def _tidy(text: str) -> list[str]:
    rows = [row.rstrip() for row in text.replace("\r\n", "\n").split("\n")]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _close(expected: str, produced: str, tolerance: float) -> bool:
    if expected == produced and expected.lower() not in ("nan", "-nan", "+nan"):
        return True
    left, right = _number(expected), _number(produced)
    if left is None or right is None:
        return False
    if not (math.isfinite(left) and math.isfinite(right)):
        return left == right
    # A hair above the tolerance: 0.100001 and 0.1 differ by 1e-6 on paper and by a little more in binary.
    return abs(left - right) <= tolerance * max(1.0, abs(left)) * (1 + 1e-9)


def _number(text: str) -> float | None:
    """Parse the number that a word spells, None if it spells none; `float` alone would also read "1_000" and "１"."""
    return float(text) if _NUMBER.fullmatch(text) else None


def _lower_ascii(text: str) -> str:
    """Lower A to Z only: other letters keep their case, in whatever script they are."""
    return text.translate(_LOWER)
