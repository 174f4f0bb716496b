"""What counts as the same output."""

import pytest

from sandbox.protocol import InvalidRequestError
from sandbox.timing import checkers

CASES = [
    ("lines", "1\n2\n", "1\r\n2\r\n", True),
    ("lines", "1\n2\n", "1  \n2\n\n\n", True),
    ("lines", "a b\n", "ab\n", False),
    ("lines", "a b\n", "a  b\n", False),
    ("lines", "a\nb\n", "a\n\nb\n", False),
    ("lines", "a\n", "", False),
    ("lines", "", "\n", True),
    ("tokens", "a  b\n", "a b", True),
    ("tokens", "a b", "ab", False),
    ("float_1e-6", "0.1", "0.100001", True),
    ("float_1e-6", "0.1", "0.1000012", False),
    ("float_1e-6", "1000000", "1000000.9", True),
    ("float_1e-6", "nan", "nan", False),
    ("float_1e-6", "inf", "inf", True),
    ("float_1e-6", "inf", "-inf", False),
    ("float_1e-6", "0", "-0.0", True),
    ("float_1e-6", "1", "1e400", False),
    ("float_1e-6", "yes 1", "yes 1.0", True),
    ("float_1e-6", "yes", "no", False),
    ("float_1e-6", "1 2", "1", False),
]


@pytest.mark.parametrize(("name", "expected", "produced", "agrees"), CASES)
def test_checkers_agree_where_they_say(name, expected, produced, agrees):
    assert checkers.checker_named(name)(expected, produced) is agrees


@pytest.mark.parametrize("name", ["", "exact", "float_1e-0", "float_1e-", "float_2e-6"])
def test_an_unknown_checker_is_named(name):
    with pytest.raises(InvalidRequestError, match=r"suite\.checker"):
        checkers.checker_named(name)
