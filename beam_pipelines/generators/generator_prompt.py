"""The prompt that asks a model for an input generator (App. B.4, Figure 13), and the program in its answer. Pure."""

import hashlib
import re

from beam_pipelines.records import Problem, Solution
from beam_pipelines.stages.python2 import is_python2

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
    """Write the prompt: the statement in full and one correct Python 3 solution.

    Args:
      problem: the problem that needs inputs.
      seed: draws the solution.

    Raises:
      ValueError: the problem has no such solution to show.
    """
    shown = shown_solutions(problem)
    if not shown:
        raise ValueError(f"{problem.id}: expected a correct solution in Python 3 to show")
    ranked = sorted(shown, key=lambda one: hashlib.sha256(f"{seed}/{one.id}".encode()).digest())
    return _INSTRUCTION.format(statement=problem.statement, program=ranked[0].program)


def shown_solutions(problem: Problem) -> list[Solution]:
    """Return the correct solutions in Python 3, the language that the generator is asked for in."""
    return [one for one in problem.correct if one.language == "python3" and not is_python2(one.program)]


def generator_program_of(completion: str) -> str | None:
    """Extract the generator's program from a completion.

    Args:
      completion: text of the model's answer.

    Returns:
      The last code block with the class in it, or the whole text where it has no blocks; None without the class.
    """
    blocks = _BLOCK.findall(completion) or [completion]
    programs = [block for block in blocks if CLASS in block]
    return programs[-1].strip() + "\n" if programs else None
