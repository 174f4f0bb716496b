"""Edge: the runner and what it imports as one program text, for an interpreter that has none of our files."""

import functools
import pathlib

FOLDER = pathlib.Path(__file__).parent
# In the order in which they import each other.
MODULES = (
    "inside.clocks",
    "inside.counter",
    "inside.kernel",
    "inside.groups",
    "inside.worlds",
    "inside.python",
    "inside.languages",
    "inside.containment",
    "inside.zygote",
    "runner",
)

# The names vanish again, so that a program under test finds no module that a plain interpreter lacks.
_LOADER = """import sys, types
held = {{}}
for name in ("sandbox", "sandbox.inside"):
    held[name] = sys.modules[name] = types.ModuleType(name)
    held[name].__path__ = []
for name, source in {sources!r}.items():
    parent, _, last = name.rpartition(".")
    held[name] = sys.modules[name] = types.ModuleType(name)
    setattr(held[parent], last, held[name])
    exec(compile(source, name + ".py", "exec"), held[name].__dict__)
for name in held:
    del sys.modules[name]
program = held["sandbox.runner"].main()
# Only in a process that is to run a program: it begins when this text has ended.
if program is not None:
    program.schedule()
"""


# Nothing of a user or of a current directory, like -I, but with an environment, which is ours to fill.
FLAGS = ("-s", "-P")
# Random hashes let the same program take 4 % more or less from one interpreter to the next: where its names collide.
# Of the first 150 seeds, this is the one with the fewest collisions among the names that short programs use.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "29"}


def command(python: str, *arguments: str) -> list[str]:
    """How to start a runner, in ENVIRONMENT: it serves requests until its standard input ends."""
    return [python, *FLAGS, "-c", text(), *arguments]


@functools.cache
def text() -> str:
    sources = {f"sandbox.{name}": (FOLDER / f"{name.replace('.', '/')}.py").read_text() for name in MODULES}
    return _LOADER.format(sources=sources)
