"""Which Python a program is written in, told from its text alone: nothing is executed.

A dataset of Python 3 programs must not carry Python 2 ones under a wrong label, and must not convert them silently.
"""

import re
import warnings

PYTHON2_SYNTAX = re.compile(
    r"^\s*print\s+[^=\s(]|^\s*print\s*$|^\s*exec\s+[\"'a-z]|except\s+[\w.]+\s*,\s*\w+\s*:|<>|`[^`\n]+`|\b0[0-7]+\b|\d+L\b"
    r"|^\s*raise\s+\w+\s*,",
    re.MULTILINE,
)
# Parses in Python 3 as a shift of the print function, and fails only when it runs.
PRINT_REDIRECTION = re.compile(r"^\s*print\s*>>", re.MULTILINE)
PYTHON2_NAMES = re.compile(r"\b(raw_input|xrange|unichr|basestring)\s*\(|\.(iteritems|itervalues|has_key)\s*\(")


def is_python2(program: str) -> bool:
    """Tell whether a program is written in Python 2.

    It is where Python 3 cannot parse it and Python 2 syntax explains why, or where it uses Python 2's own names. A name
    counts only where the program does not define it itself (`xrange = range`). A program that neither version explains
    is not Python 2: it has a syntax error, and execution will say so.
    """
    if not _parses(program):
        return bool(PYTHON2_SYNTAX.search(program))
    found = PYTHON2_NAMES.search(program)
    return bool(PRINT_REDIRECTION.search(program)) or (bool(found) and not _defines(program, found[1] or found[2]))


def _defines(program: str, name: str) -> bool:
    return bool(re.search(rf"(^|[\s;,]){name}\s*=[^=]|def\s+{name}\b|import\s+.*\b{name}\b|\bas\s+{name}\b", program))


def _parses(program: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Not `ast.parse`: two threads of a worker cannot build syntax trees at the same time in Python 3.11.
            compile(program, "program", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
