"""The program that wraps an untrusted input generator, and how its answer is read. Runs nothing itself.

The wrapper executes the generator's source under another module name, seeds `random` (and numpy where the source
loaded it) before each call, and prints all inputs as one JSON list. It knows two shapes of generators: a class
`InputGenerator` with the methods of the schedule (paper L1400), and a function `generate_input`.
"""

import json
from collections.abc import Sequence

from beam_pipelines.records import Generator

CAMPAIGN_METHODS = {
    "correctness": ("generate_edge_cases", "generate_small_cases", "generate_sample_cases"),
    "optimization": ("generate_edge_cases", "generate_large_cases", "generate_sample_cases"),
}
MAX_INPUT_CHARACTERS = 1 << 24

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
for round_index in range({calls}):
    for index, function in enumerate(functions):
        seeded({seed} + 1 + round_index * len(functions) + index)
        inputs.append(call(function))
print(json.dumps(inputs))
"""


def wrapper_program(generator: Generator, methods: Sequence[str], *, calls: int, seed: int) -> str:
    """Source of a program that prints calls x methods inputs as a JSON list; the seed decides all of them."""
    return _WRAPPER.format(source=generator.program, methods=tuple(methods), calls=calls, seed=seed)


def parse_inputs(output: str | None, *, expected: int) -> tuple[str, ...] | str:
    """The inputs that a wrapper printed, or the reason why they cannot be used."""
    try:
        inputs = json.loads(output or "")
    except ValueError:
        return "generator_output_is_not_json"
    if not isinstance(inputs, list) or not all(isinstance(item, str) for item in inputs):
        return "generator_returned_no_text"
    if len(inputs) != expected:
        return "generator_returned_too_few_inputs"
    if any(len(item) > MAX_INPUT_CHARACTERS for item in inputs):
        return "generated_input_too_large"
    return tuple(item if item.endswith("\n") else item + "\n" for item in inputs)
