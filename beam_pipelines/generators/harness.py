"""The program that wraps an untrusted input generator, and how its answer is read. Runs nothing itself.

The wrapper executes the generator's source under another module name, seeds `random` (and numpy where the source
loaded it) before each call, and prints inputs as one JSON list. It knows two shapes of generators (App. B.4, Table 11):
a class `InputGenerator` with the methods of the schedule, and a function `generate_input`.
"""

import json
from collections.abc import Sequence

from beam_pipelines.records import Generator

CAMPAIGN_METHODS = {
    "correctness": ("generate_edge_cases", "generate_small_cases", "generate_sample_cases"),
    "optimization": ("generate_edge_cases", "generate_large_cases", "generate_sample_cases"),
}
MAX_INPUT_CHARACTERS = 1 << 26

_WRAPPER = """\
import contextlib, io, json, random, sys
SOURCE = {source!r}
METHODS = {methods!r}
def seeded(number):
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % 2**32)
def call(function):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = function()
    return printed.getvalue() if value is None else value
seeded({seed})
names = {{"__name__": "input_generator"}}
with contextlib.redirect_stdout(io.StringIO()):
    exec(compile(SOURCE, "input_generator", "exec"), names)
    made = names["InputGenerator"]() if "InputGenerator" in names else None
functions = [getattr(made, method) if made else names["generate_input"] for method in METHODS]
inputs = []
for number in range({first}, {last}):
    seeded({seed} + 1 + number)
    inputs.append(call(functions[number % len(functions)]))
print(json.dumps(inputs))
"""


def wrapper_program(
    generator: Generator, methods: Sequence[str], *, calls: int, seed: int, only: int | None = None
) -> str:
    """Return the source of a program that prints inputs as a JSON list; the seed decides all of them.

    Args:
      generator: the untrusted source.
      methods: the methods of one round, in order.
      calls: rounds of all methods.
      seed: of the first call; every further call has the next one.
      only: the number of the one call to make, below calls x methods; None for all of them.
    """
    first, last = (0, calls * len(methods)) if only is None else (only, only + 1)
    return _WRAPPER.format(source=generator.program, methods=tuple(methods), first=first, last=last, seed=seed)


def parse_inputs(output: str | None, *, expected: int) -> tuple[str, ...] | str:
    """Return the inputs that a wrapper printed, or the reason why they cannot be used."""
    try:
        inputs = json.loads(output or "")
    except (ValueError, RecursionError):
        return "generator_output_is_not_json"
    if not isinstance(inputs, list) or not all(isinstance(item, str) for item in inputs):
        return "generator_returned_no_text"
    if len(inputs) != expected:
        return "generator_returned_too_few_inputs"
    if any(len(item) > MAX_INPUT_CHARACTERS for item in inputs):
        return "generated_input_too_large"
    if not all(map(is_unicode, inputs)):
        return "generator_returned_no_unicode"
    return tuple(item if item.endswith("\n") else item + "\n" for item in inputs)


def is_unicode(text: str) -> bool:
    """Whether a text can be stored: lone surrogates, which JSON can spell and programs can print, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
