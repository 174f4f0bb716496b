"""Prompts end in the program marker; the final program is found in whatever surrounds it."""

import pytest

from optimrl_jax.data import prompts, tokenizer

TRAINED = tokenizer.train(["Read n. Print it.\n", "print(input())\n"], 300)

COMPLETIONS = [
    ("print(1)\n", "print(1)\n"),
    ("Let me think.\n```python\nprint(1)\n```\nBetter:\n```python\nprint(2)\n```\nDone.", "print(2)\n"),
    ("```\nprint(3)\n```", "print(3)\n"),
    ("```python\nprint(4)\nprint(5)", "print(4)\nprint(5)"),
    ("x\r\n```py\r\nprint(6)\r\n```\r\n", "print(6)\n"),
    ("```python\nprint(7)\n```\n```\n\n```", "print(7)\n"),
    ("```python\ns = 'a ``` b'\nprint(s)\n```", "s = 'a ``` b'\nprint(s)\n"),
    ("```python\n```", ""),
    ("<think>Try:\n```python\nprint(1)\n```\n</think>\nHere:\n```python\nprint(2)\n```", "print(2)\n"),
    ("a\n```python\nprint(1)\n```\nno</think>print(8)\n", "print(8)\n"),
    ("<think>\n```python\nprint(1)\n```\nwait, that is too slow: I should", ""),
    ("~~~python\nprint(9)\n~~~\n", "print(9)\n"),
    ("~~~\nprint('```')\n```\nprint(2)\n~~~~", "print('```')\n```\nprint(2)\n"),
    ("````md\n```python\nprint(1)\n```\n````", "```python\nprint(1)\n```\n"),
    ("```python\nprint(1)\n\nBetter:\n```python\nprint(2)\n", "print(2)\n"),
    ("1. So:\n   ```python\n   for i in a:\n       print(i)\n   ```", "for i in a:\n    print(i)\n"),
    ("for i in a:\n    print(i)\n", "for i in a:\n    print(i)\n"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "program"), COMPLETIONS)
def test_the_last_filled_block_is_the_program(text, program):
    assert prompts.program_of(text) == program


def test_prompt_and_completion_are_closed_by_their_markers():
    ids = prompts.prompt(TRAINED, "  Read n.\n")
    assert ids[-1] == TRAINED.program
    assert TRAINED.decode(ids) == "Read n."
    ids = prompts.completion(TRAINED, "\nprint(input())")
    assert ids[-1] == TRAINED.end
    assert prompts.program_of(TRAINED.decode(ids)) == "print(input())\n"
