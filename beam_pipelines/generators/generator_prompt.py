"""The prompt that asks a model for an input generator (App. B.4, Figure 13), and the program in its answer. Pure."""

import hashlib
import re

from beam_pipelines.records import Problem

_INSTRUCTION = """Below are a programming problem and a Python program that solves it. Write a Python class named
InputGenerator with four methods without arguments: generate_edge_cases, generate_large_cases, generate_small_cases and
generate_sample_cases. Every call returns one complete input of the problem as a string, drawn at random with the
`random` module, and keeps to all constraints of the statement. Edge cases are unusual but allowed, large cases come
close to the limits so that slow programs show, small cases can be checked by hand, sample cases look like the examples.
Answer with one Python code block that holds the imports and the class, and nothing else.

Problem:
{statement}

A program that solves it:
```python
{program}
```
"""
_BLOCK = re.compile(r"```(?:python|py)?[^\S\n]*\n(.*?)```", re.DOTALL)
CLASS = "class InputGenerator"


def generator_prompt(problem: Problem, *, seed: int) -> str:
    """The statement in full and one correct solution, which the seed draws; raises ValueError without a solution."""
    if not problem.correct:
        raise ValueError(f"{problem.id}: expected a correct solution to show")
    ranked = sorted(problem.correct, key=lambda one: hashlib.sha256(f"{seed}/{one.id}".encode()).digest())
    return _INSTRUCTION.format(statement=problem.statement, program=ranked[0].program)


def generator_program_of(completion: str) -> str | None:
    """The last code block with the class in it, or the whole text where it has no blocks; None without the class."""
    blocks = _BLOCK.findall(completion) or [completion]
    programs = [block for block in blocks if CLASS in block]
    return programs[-1].strip() + "\n" if programs else None
