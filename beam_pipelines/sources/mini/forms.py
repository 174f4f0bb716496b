"""The output forms that all families share: what is printed of the integer that a program computed.

A form is the second half of an instance (family, operation, form). Its phrase and its expression are the same in every
family, so that even a pair that was not trained on is made of known parts. Pure.
"""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class OutputForm:
    """One way of printing the integer that a program computed.

    Every form is defined for integers that are not negative, and few integers look the same in two forms.

    Attributes:
      name: unique; ends the ids of its problems.
      phrase: how the statement asks for it.
      expression: Python that gives what is printed of the variable `ans`.
      mistake: the same with a plausible slip.
      text: the trusted counterpart of `expression`.
    """

    name: str
    phrase: str
    expression: str
    mistake: str
    text: Callable[[int], str]


FORMS = (
    OutputForm("value", "the answer", "ans", "ans + 1", str),
    OutputForm("modulo_7", "the answer modulo 7", "ans % 7", "ans // 7", lambda value: str(value % 7)),
    OutputForm(
        "parity",
        "odd or even for the answer",
        '"odd" if ans % 2 else "even"',
        '"even" if ans % 2 else "odd"',
        lambda value: ("even", "odd")[value % 2],
    ),
    OutputForm(
        "digit_sum",
        "the digit sum of the answer",
        "sum(map(int, str(ans)))",
        "len(str(ans))",
        lambda value: str(sum(int(digit) for digit in str(value))),
    ),
    OutputForm("binary", "the answer in binary", 'format(ans, "b")', "bin(ans)", lambda value: f"{value:b}"),
    OutputForm(
        "triple_plus_one",
        "three times the answer plus one",
        "3 * ans + 1",
        "3 * (ans + 1)",
        lambda value: str(3 * value + 1),
    ),
    OutputForm("modulo_11", "the answer modulo 11", "ans % 11", "ans % 10", lambda value: str(value % 11)),
    OutputForm(
        "divisible_by_3",
        "Yes if the answer is divisible by 3, else No",
        '"Yes" if ans % 3 == 0 else "No"',
        '"Yes" if ans % 3 else "No"',
        lambda value: "No" if value % 3 else "Yes",
    ),
)
