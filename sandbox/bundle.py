"""Edge: packs the runner and all that it imports into one program text, for an interpreter that has none of our files.

Backends start `command` in ENVIRONMENT, in a container or beside one; nothing of this package needs to be installed in
the image. This module starts nothing itself.
"""

import binascii
import functools
import io
import json
import pathlib
import threading
import tokenize
import zlib

FOLDER = pathlib.Path(__file__).parent
# In the order in which they import each other.
MODULES = (
    "inside.clocks",
    "inside.speed",
    "inside.counter",
    "inside.kernel",
    "inside.groups",
    "inside.worlds",
    "inside.python",
    "inside.languages",
    "inside.inputs",
    "inside.containment",
    "inside.zygote",
    "inside.spawner",
    "inside.held",
    "inside.interactive",
    "runner",
)

# The names are removed again, so that a program finds no module that a plain interpreter lacks. A process that is to
# run a program begins it when this text has ended. Whatever goes with the text is taken apart then, page after page in
# each of these processes: so names hold what can be held, and what the interpreter is started with is tiny.
_LOADER = """
import json, sys, types
held, code = {{}}, (sys._getframe(0).f_code, sys._getframe(1).f_code)
for name in ("sandbox", "sandbox.inside"):
    held[name] = sys.modules[name] = types.ModuleType(name)
    held[name].__path__ = []
held["sandbox.inside"].STARTED_WITH = frozenset(sys.modules) - {{*held, "json"}}
for name, source in json.loads({sources!r}).items():
    parent, _, last = name.rpartition(".")
    held[name] = sys.modules[name] = types.ModuleType(name)
    setattr(held[parent], last, held[name])
    exec(compile(source, name + ".py", "exec"), held[name].__dict__)
for name in (*held, "zlib"):
    del sys.modules[name]
held["sandbox.runner"].main()
"""
_STARTER = (
    'exec(compile(__import__("zlib").decompress(__import__("binascii").a2b_base64({packed!r})), "loader", "exec"))'
)

_BUILDING = threading.Lock()

# Like -I, these keep out the user's packages and the current directory, but they heed the environment, which we set.
FLAGS = ("-s", "-P")
# With random hashes the same program takes 4 % more or less from one interpreter to the next, depending on which of its
# names collide. Of the first 150 seeds, this one has the fewest collisions among the names that short programs use.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "29"}


def command(python: str, *arguments: str) -> list[str]:
    """Build the command line that starts a runner; it serves requests until its standard input ends.

    Start it with ENVIRONMENT and nothing else in the environment, which programs inherit.

    Args:
      python: the interpreter, a path or a name to be looked up where the runner starts.
      arguments: arguments of `sandbox.runner`: the directory for inputs, then `--uid N` and `--world` or `--clean`.

    Returns:
      The words of the command, the program text among them.
    """
    return [python, *FLAGS, "-c", text(), *arguments]


def text() -> str:
    """Return the program text: all MODULES, compressed, and a loader that leaves none of them in `sys.modules`.

    It is a single argument of a command, of which Linux takes at most 128 KiB (MAX_ARG_STRLEN), and of which each
    process of a runner holds copies: docstrings and comments stay behind. Lines keep their numbers. Workers may ask for
    it from several threads.
    """
    # One at a time: Python 3.11 can end in a SystemError where two threads parse at once.
    with _BUILDING:
        return _program_text()


@functools.cache
def _program_text() -> str:
    sources = {f"sandbox.{name}": _bare((FOLDER / f"{name.replace('.', '/')}.py").read_text()) for name in MODULES}
    packed = zlib.compress(_LOADER.format(sources=json.dumps(sources)).encode(), level=9)
    return _STARTER.format(packed=binascii.b2a_base64(packed, newline=False))


def _bare(source: str) -> str:
    """Remove docstrings and lines of comments from a module's text, but not the lines.

    By tokens, because Python 3.11 does not let two threads build syntax trees at the same time, as starting workers do.
    """
    lines = source.splitlines()
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        (first, column), (last, _) = token.start, token.end
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            lines[first - 1] = ""
        # A text where a statement begins is one that nobody reads.
        elif token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            lines[first - 1 : last] = [" " * column + "pass"] + [""] * (last - first)
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    return "\n".join(lines)
