"""The program of a completion: the last block of the asked language behind the reasoning, however it is fenced."""

import cProfile

import numpy as np
import pytest
import tokenizers

from optimrl_jax.data import answers, prompts, tokenizer
from optimrl_jax.data.answers import program_of

COMPLETIONS = [
    ("print(1)\n", "print(1)\n"),
    ("Let me think.\n```python\nprint(1)\n```\nBetter:\n```python\nprint(2)\n```\nDone.", "print(2)\n"),
    ("```\nprint(3)\n```", "print(3)\n"),
    ("```python\nprint(4)\nprint(5)", "print(4)\nprint(5)\n"),
    ("x\r\n```py\r\nprint(6)\r\n```\r\n", "print(6)\n"),
    ("```python\nprint(7)\n```\n```\n\n```", "print(7)\n"),
    ("```python\ns = 'a ``` b'\nprint(s)\n```", "s = 'a ``` b'\nprint(s)\n"),
    ("```python\n```", ""),
    ("<think>Try:\n```python\nprint(1)\n```\n</think>\nHere:\n```python\nprint(2)\n```", "print(2)\n"),
    ("a\n```python\nprint(1)\n```\nno</think>print(8)\n", "print(8)\n"),
    ("<think>\n```python\nprint(1)\n```\nwait, that is too slow: I should", ""),
    ("~~~python\nprint(9)\n~~~\n", "print(9)\n"),
    ("~~~\nprint('```')\n```\nprint(2)\n~~~~", "print('```')\n```\nprint(2)\n"),
    ("````md\n```python\nprint(1)\n```\n````", "print(1)\n"),
    ("```python\nprint(1)\n\nBetter:\n```python\nprint(2)\n", "print(2)\n"),
    ("1. So:\n   ```python\n   for i in a:\n       print(i)\n   ```", "for i in a:\n    print(i)\n"),
    ("```python\n'''\n```\nin\n```\n'''\nprint(1)\n```\n", "'''\n```\nin\n```\n'''\nprint(1)\n"),
    ("```python\n'''\n```text\nin\n```\n'''\nprint(1)\n```\n", "'''\n```text\nin\n```\n'''\nprint(1)\n"),
    ("```python\nprint('</think>')\n```\n", "print('</think>')\n"),
    ("Code: ```python\nprint(1)\n```\n", "print(1)\n"),
    ("```python\nprint(1)\n``` Done.", "print(1)\n"),
    ("\ufeff```python\nprint(1)\n```", "print(1)\n"),
    ("```python\nprint(1)\n```\nIt prints\n```\n1\n```\n", "print(1)\n"),
    ("```python\nprint(1)\n```\nRun\n```bash\npython a.py\n```\n", "print(1)\n"),
    ("```python\nprint(1\n```\nIt prints\n```\n1\n```\n", "print(1\n"),
    ("```\ndef f(): pass\n```\n", "def f(): pass\n"),
    ("~~~py3\r\nprint(1)\r\n~~~\r\n", "print(1)\n"),
    ("Sure. <think>\n```python\nprint(0)\n```\nwait", ""),
    ("<think>a</think>\n```python\nprint(1)\n```\n<think>\n```python\nprint(0)\n```\n", "print(1)\n"),
    ("for i in a:\n    print(i)\n", "for i in a:\n    print(i)\n"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "program"), COMPLETIONS)
def test_the_last_filled_block_is_the_program(text, program):
    assert program_of(text, prompt="Sort them.\n") == program


DRAFT = "Brute force first:\n```python\nprint(0)\n```\nToo slow, so I should"


def test_a_draft_of_reasoning_that_the_prompt_opened_is_no_program():
    assert program_of(DRAFT, prompt="<|im_start|>assistant\n<think>\n") == ""
    assert program_of(f"{DRAFT}</think>\n```python\nprint(1)\n```", prompt="<think>\n") == "print(1)\n"
    assert program_of(DRAFT, prompt="What does <think> mean?\n") == "print(0)\n"


def test_without_the_prompt_a_text_that_breaks_off_has_no_program():
    assert program_of(DRAFT) == ""
    assert program_of(f"{DRAFT} sort.") == "print(0)\n"


def test_another_language_prefers_its_own_blocks():
    text = "```cpp\nint main() {}\n```\n```python\nprint(1)\n```\n"
    assert program_of(text, prompt="", language="cpp") == "int main() {}\n"
    assert program_of(text, prompt="", language="java") == "print(1)\n"


def test_tags_of_reasoning_count_as_special_tokens_too_and_other_special_tokens_vanish():
    model = tokenizers.Tokenizer.from_str(tokenizer.train_tokenizer(["print(1)\n"], 300).model.to_str())
    model.add_special_tokens([answers.THINKING, answers.THOUGHT])
    policy = tokenizer.adopt_tokenizer(model, source="test")
    opening, closing = (model.token_to_id(tag) for tag in (answers.THINKING, answers.THOUGHT))
    draft, program = policy.encode("```python\nprint(0)\n```\n"), policy.encode("```python\nprint(1)\n```\n")
    prompt = policy.encode("Print 1.")
    ended = np.concatenate([[opening], draft, [closing], program, [policy.end]])
    assert prompts.sampled_program(policy, prompt, ended) == "print(1)\n"
    assert prompts.sampled_program(policy, prompt, ended[: len(draft) + 1]) == ""
    assert prompts.sampled_program(policy, np.append(prompt, opening), draft) == ""
    assert prompts.sampled_program(policy, prompt, np.append(policy.encode("print(1)\n"), policy.end)) == "print(1)\n"


@pytest.mark.parametrize(
    "part", ["```\n", "> ", "- ", "a```python\n", "<think>\n</think>\n", "```python\n'''\n", "`", "````md\n"]
)
def test_work_grows_with_the_length_of_hostile_texts(part):
    def calls(times: int) -> int:
        """Calls of Python functions, which unlike seconds are the same on every machine."""
        profile = cProfile.Profile()
        profile.runcall(program_of, part * times)
        return sum(entry.callcount for entry in profile.getstats())

    # Ten times the text in less than thirty times the calls: what is quadratic makes a hundred times as many.
    assert calls(5_000) < 30 * max(calls(500), 1_000)
