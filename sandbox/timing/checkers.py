"""Compares a program's output with the expected one, outside the container. Pure.

Checkers are named; a suite chooses one. Each takes (expected, produced) text and says whether they agree.
"""

import functools
import math
import re
from collections.abc import Callable

from sandbox.protocol import InvalidRequestError

Checker = Callable[[str, str], bool]

_FLOAT_NAME = re.compile(r"float_1e-(\d{1,2})")


def lines(expected: str, produced: str) -> bool:
    """Equal after trailing white space of each line and trailing blank lines are dropped; CRLF equals LF.

    Space inside a line counts: "a  b" is not "a b", and "ab" is not "a b".
    """
    return _tidy(expected) == _tidy(produced)


def tokens(expected: str, produced: str) -> bool:
    """Equal as sequences of words; any run of white space separates words."""
    return expected.split() == produced.split()


def floats(expected: str, produced: str, *, tolerance: float) -> bool:
    """Words agree, numbers up to an absolute or relative `tolerance` (at the edge: agrees); nan agrees with nothing."""
    left, right = expected.split(), produced.split()
    return len(left) == len(right) and all(_close(a, b, tolerance) for a, b in zip(left, right, strict=True))


CHECKERS: dict[str, Checker] = {"lines": lines, "tokens": tokens}


def checker_named(name: str) -> Checker:
    """The checker of a suite: lines, tokens or float_1e-N, N from 1 to 99; raises InvalidRequestError otherwise."""
    if name in CHECKERS:
        return CHECKERS[name]
    match = _FLOAT_NAME.fullmatch(name)
    if match and int(match[1]) > 0:
        return functools.partial(floats, tolerance=10.0 ** -int(match[1]))
    raise InvalidRequestError(f"suite.checker = {name!r}: expected one of {', '.join(CHECKERS)} or float_1e-N")


def _tidy(text: str) -> list[str]:
    rows = [row.rstrip() for row in text.replace("\r\n", "\n").split("\n")]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _close(expected: str, produced: str, tolerance: float) -> bool:
    if expected == produced and expected.lower() not in ("nan", "-nan", "+nan"):
        return True
    try:
        left, right = float(expected), float(produced)
    except ValueError:
        return False
    if not (math.isfinite(left) and math.isfinite(right)):
        return left == right
    # A hair above the tolerance: 0.100001 and 0.1 differ by 1e-6 on paper and by a little more in binary.
    return abs(left - right) <= tolerance * max(1.0, abs(left)) * (1 + 1e-9)
