"""Tests that call a function of the program: inputs are JSON lists of arguments, outputs JSON values. Pure.

The program becomes a text inside a program of ours, which calls the entry point and prints what it returns. What the
program itself prints goes nowhere. Its seconds are those of that process, the compilation of the text included.
"""

import json
import math

from sandbox.protocol import Call

_HARNESS = """import json, os, sys
answer = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
space = {{"__name__": "solution"}}
exec(compile({program!r}, "solution.py", "exec"), space)
entry = eval({entry_point!r}, space)
value = entry(*json.loads(sys.stdin.read()))
os.write(answer, json.dumps(value).encode())
"""


def harness(program: str, call: Call) -> str:
    """Return the Python program that calls `program` once, with the arguments on its standard input."""
    return _HARNESS.format(program=program, entry_point=call.entry_point)


def values_agree(expected: str, produced: str, call: Call) -> bool:
    """Compare two JSON texts as values; floats up to the call's tolerance. A text that is not JSON agrees with none."""
    try:
        return _agree(json.loads(expected), json.loads(produced), call.tolerance)
    except (ValueError, RecursionError):
        return False


def _agree(left: object, right: object, tolerance: float) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_agree(a, b, tolerance) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_agree(left[key], right[key], tolerance) for key in left)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, float) or isinstance(right, float):
        are_numbers = isinstance(left, int | float) and isinstance(right, int | float)
        return are_numbers and (left == right or math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance))
    return left == right
