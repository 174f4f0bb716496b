"""Edge: input generators that a problem's source brings: which of them can be run, and with which header.

They are called or started in the sandbox only; here their texts are looked at.
"""

import dataclasses

from beam_pipelines.generators import compiled
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Generator
from beam_pipelines.sources.own_checkers import lacks_testlib, with_testlib

CLASS_MARKS = ("class InputGenerator", "def generate_input")


def runnable_generator(generator: Generator, options: BuildOptions) -> Generator | None:
    """Return a generator as it can be run; None for one that cannot.

    A Python program that defines `InputGenerator` or `generate_input` is called. Any other one in Python, C or C++ has
    to have commands, with which it is started. The header testlib.h comes from `--testlib` where a program includes it
    and its source does not bring it.

    Args:
      generator: as its source gives it, in any language.
      options: `testlib` counts.
    """
    if generator.language == "python3" and any(mark in generator.program for mark in CLASS_MARKS):
        return dataclasses.replace(generator, commands=())
    if not generator.commands or generator.language not in ("python3", *compiled.SUFFIXES):
        return None
    if not lacks_testlib(generator):
        return generator
    return with_testlib(generator, options.testlib) if options.testlib else None


def commands_in(text: str) -> tuple[str, ...]:
    """Return the arguments of each line of a script that starts one program, without the program and redirections.

    Args:
      text: lines such as `./gen -n 10 > 1.in`; blank ones and comments do not count.
    """
    lines = (line.split(">")[0].split("|")[0].strip() for line in text.splitlines())
    commands = (line.partition(" ")[2].strip() for line in lines if line and not line.startswith("#"))
    return tuple(dict.fromkeys(commands))
