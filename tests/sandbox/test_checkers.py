"""What counts as the same output."""

import pytest

from sandbox.protocol import InvalidRequestError, Suite
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
    ("float_1e-6", "10", "1_0", False),
    ("code_contests", "Yes\n", "YES\n", True),
    ("code_contests", "3\n6\n", "3 6\n", True),
    ("code_contests", "0.4285714\n", "0.42857142857142855\n", True),
    ("code_contests", "Yes\n0.4285714\n", "YES\n0.42857142857142855\n", True),
    ("code_contests", "0.5", "0.50002", False),
    ("code_contests", "1e6", "1000000.00002", False),
    ("code_contests", "12345678901234567890", "12345678901234567891", False),
    ("code_contests", "5", "+5", True),
    ("code_contests", "5", "5 5", False),
    ("code_contests", "Ä", "ä", False),
    ("code_contests", "nan", "0", False),
    ("kattis", "Yes 1\n", "YES\n1", True),
    ("kattis", "0.5", "0.50", False),
    ("kattis", "Ä", "ä", False),
    ("kattis:case_sensitive", "Yes", "YES", False),
    ("kattis:space_change_sensitive", "a b\n", "A b\n", True),
    ("kattis:space_change_sensitive", "a b\n", "a  b\n", False),
    ("kattis:space_change_sensitive", "a b\n", "a b", False),
    ("kattis:float_tolerance=5e-7", "0.0314", "3.1400004E-2", True),
    ("kattis:float_tolerance=5e-7", "0.0314", "3.14006E-2", False),
    ("kattis:float_tolerance=0.5", "3", "3.5", True),
    ("kattis:float_absolute_tolerance=1e-6", "1000000", "1000000.9", False),
    ("kattis:float_relative_tolerance=1e-6", "1000000", "1000000.9", True),
    ("kattis:float_relative_tolerance=1e-6", "0", "0.0000001", False),
    ("kattis:float_absolute_tolerance=0:float_relative_tolerance=1e-9", "7", "7.0", True),
    ("kattis:float_tolerance=1e-6:case_sensitive", "Yes 1", "yes 1", False),
    ("kattis:float_tolerance=1e-6", "1", "one", False),
    ("kattis:float_tolerance=1e-6", "one", "ONE", True),
    ("kattis:float_tolerance=1e-6", "nan", "nan", False),
]


@pytest.mark.parametrize(("name", "expected", "produced", "agrees"), CASES)
def test_checkers_agree_where_they_say(name, expected, produced, agrees):
    assert checkers.checker_named(name)(expected, produced) is agrees


@pytest.mark.parametrize(
    "name",
    ["", "exact", "float_1e-0", "float_1e-", "float_2e-6", "kattis:", "kattis:float_tolerance=-1", "kattis:loose"],
)
def test_an_unknown_checker_is_named(name):
    with pytest.raises(InvalidRequestError, match=r"suite\.checker"):
        checkers.checker_named(name)


def test_a_suite_takes_any_sequence_of_texts():
    assert Suite(inputs=["3"], expected=["6"]) == Suite(inputs=("3",), expected=("6",))
