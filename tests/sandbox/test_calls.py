"""Tests that call a function of the program and compare values."""

import pytest

from sandbox import client
from sandbox.protocol import Call, InvalidRequestError, RunRequest, Suite, Verdict
from sandbox.timing import calls

INPUTS, EXPECTED = ("[1, 2]", "[0.1, 0.2]"), ("3", "0.3")
RIGHT, WRONG = Verdict.SUCCESS, Verdict.WRONG_OUTPUT


@pytest.mark.parametrize(
    ("program", "entry_point", "expected"),
    [
        ("def add(a, b):\n    print('noise')\n    return a + b", "add", [RIGHT, RIGHT]),
        ("class Solution:\n    def add(self, a, b):\n        return a + b", "Solution().add", [RIGHT, RIGHT]),
        ("def add(a, b):\n    return 3", "add", [RIGHT, WRONG]),
        ("def add(a, b):\n    return '3'", "add", [WRONG, WRONG]),
        ("def add(a, b):\n    return 1 // 0", "add", [Verdict.RUNTIME_ERROR] * 2),
        ("def other(): pass", "add", [Verdict.RUNTIME_ERROR] * 2),
        ("def add(a, b:", "add", [Verdict.COMPILE_ERROR] * 2),
        ("def add(a, b): return a + b\nif __name__ == '__main__': 1 / 0", "add", [RIGHT, RIGHT]),
    ],
)
def test_a_function_is_called_and_its_value_compared(program, entry_point, expected):
    with client.connect("local", workers=1) as connected:
        sha256 = connected.upload(Suite(INPUTS, EXPECTED, call=Call(entry_point, tolerance=1e-9)))
        assert [result.verdict for result in connected.run(RunRequest(program, sha256)).results] == expected
        with pytest.raises(InvalidRequestError, match="language = 'cpp'"):
            connected.run(RunRequest(program, sha256, language="cpp"))


@pytest.mark.parametrize(
    ("expected", "produced", "agrees"),
    [
        ("1", "1.0", True),
        ("1", "true", False),
        ("[1, 2]", "[1,2]", True),
        ('{"a": 1}', '{"a": 2}', False),
        ("1", "", False),
    ],
)
def test_values_are_compared_not_texts(expected, produced, agrees):
    assert calls.values_agree(expected, produced, Call("f")) is agrees
