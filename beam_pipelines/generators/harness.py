"""The program that wraps an untrusted input generator, and how its answer is read. Runs nothing itself.

The wrapper executes the generator's source under another module name, seeds `random` (and numpy where the source
loaded it) before each call, and prints inputs as one JSON list. It knows two shapes of generators (App. B.4, Table 11):
a class `InputGenerator` with the methods of the schedule, and a function `generate_input`. A third shape comes with
problem packages: a program that is started with arguments and prints an input; its commands take the place of methods.
"""

import json
import re
import shlex
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


_COMMAND_WRAPPER = """\
import contextlib, io, json, random, sys
SOURCE = {source!r}
COMMANDS = {commands!r}
inputs = []
for number in range({first}, {last}):
    sys.argv = COMMANDS[number]
    random.seed({seed} + 1 + number)
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(SOURCE, "input_generator", "exec"), {{"__name__": "__main__"}})
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
    inputs.append(printed.buffer.getvalue().decode())
print(json.dumps(inputs))
"""
# The seed of a command, or one of several that it numbers.
_SEED = re.compile(r"\{seed(?::(\d+))?\}")


def wrapper_program(
    generator: Generator, methods: Sequence[str], *, calls: int, seed: int, only: int | None = None
) -> str:
    """Write the program that runs a generator and prints its inputs as one JSON list.

    Args:
      generator: the untrusted source.
      methods: the methods of one round, in order.
      calls: rounds of all methods.
      seed: of the first call; every further call has the next one.
      only: the number of the one call to make, below calls x methods; None for all of them.

    Returns:
      Python source that needs nothing but the sandbox's interpreter; the seed decides all inputs.
    """
    first, last = (0, calls * len(methods)) if only is None else (only, only + 1)
    if generator.commands:
        commands = choose_commands(generator, methods, calls=calls, seed=seed)
        return _COMMAND_WRAPPER.format(source=generator.program, commands=commands, first=first, last=last, seed=seed)
    return _WRAPPER.format(source=generator.program, methods=tuple(methods), first=first, last=last, seed=seed)


def choose_commands(generator: Generator, methods: Sequence[str], *, calls: int, seed: int) -> list[list[str]]:
    """Return `sys.argv` for each of calls x methods calls of a generator with commands.

    Packages list their commands from small inputs to large ones. A campaign takes them one after the other and then
    from the beginning again, with other seeds; one that asks for large cases begins with the last one.

    Args:
      generator: has at least one command.
      methods: the methods that the commands replace.
      calls: rounds of all methods.
      seed: replaces `{seed}` in the first call; every further call has the next one.
    """
    commands = list(generator.commands)
    if "generate_large_cases" in methods:
        commands.reverse()
    found = []
    for number in range(calls * len(methods)):
        own_seed = seed + number

        def numbered(match: re.Match[str], own_seed: int = own_seed) -> str:
            return str((own_seed + int(match[1] or 0)) % 2**31)

        text = _SEED.sub(numbered, commands[number % len(commands)])
        found.append([generator.id, *_split_command(text)])
    return found


def _split_command(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        # A lone quotation mark: what a shell would refuse is still a command to others.
        return text.split()


def parse_inputs(output: str | None, *, expected: int) -> tuple[str, ...] | str:
    """Parse what a wrapper printed.

    Args:
      output: standard output; None for none.
      expected: how many inputs there have to be.

    Returns:
      The inputs, each ended by a newline, or the reason, in one word, why they cannot be used.
    """
    try:
        inputs = json.loads(output or "")
    except (ValueError, RecursionError):
        return "generator_output_is_not_json"
    if not isinstance(inputs, list) or not all(isinstance(item, str) for item in inputs):
        return "generator_returned_no_text"
    if len(inputs) != expected:
        return "generator_returned_too_few_inputs"
    return check_inputs(inputs)


def check_inputs(inputs: Sequence[str]) -> tuple[str, ...] | str:
    """Return inputs, each ended by a newline, or the reason, in one word, why they cannot be used."""
    if any(len(item) > MAX_INPUT_CHARACTERS for item in inputs):
        return "generated_input_too_large"
    if not all(map(is_unicode, inputs)):
        return "generator_returned_no_unicode"
    return tuple(item if item.endswith("\n") else item + "\n" for item in inputs)


def is_unicode(text: str) -> bool:
    """Tell whether a text can be stored: lone surrogates, which JSON can spell and programs can print, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
