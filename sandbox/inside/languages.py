"""Inside the isolation boundary: the languages, each with what is done once to a program and how a process becomes it.

A language may have a tool, such as a compiler, that reads the program first. The tool runs like a program: as the same
user and under limits. No program is parsed with more rights than it will run with.
"""

import fcntl
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from sandbox.inside import STARTED_WITH, clocks, groups, python

# Where every process that needs a program's binary has it open; far from what programs open themselves.
PROGRAM_DESCRIPTOR = clocks.PROGRAM_DESCRIPTOR
PROGRAM_FILE = "program"
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
PYPY = "/usr/bin/pypy3"
NODE = "/usr/bin/node"
JAVA = "/usr/bin/java"
# One core: no helpers that collect garbage or compile beside the program, and a stack for deep recursion.
JAVA_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4", "-Xss64m", "-Xshare:auto", "-XX:-UsePerfData")
JAVA_TOOL = "javac -nowarn -d classes {folder}/*.java && jar --create --file program -C classes ."
GO = ("GOCACHE={scratch}/go", "GO111MODULE=off", "CGO_ENABLED=0", "/usr/bin/go", "build", "-o", PROGRAM_FILE)
OUTPUT = "output"
JUDGED_FILES = ("input", OUTPUT, "answer")
FEEDBACK, MESSAGE = "feedback", "judgemessage.txt"
JUDGE, INTERACTOR = "judge", "interactor"
# Where an interactor has the file with what it is to read; right behind the mark of the start.
FILES_DESCRIPTOR = clocks.START_DESCRIPTOR + 1
OTHERS = "<the program's other files>"


class Rejected(Exception):
    """The program does not compile; the message is the compiler's."""


class Prepared(NamedTuple):
    """A program that is ready to run.

    Attributes:
      path: where its source lies, for tracebacks and for interpreters that read it.
      made: what its tool made of it, such as marshalled code; empty where that is the file at PROGRAM_DESCRIPTOR.
      warnings: what the tool printed on standard error.
      arguments: of its command line, after its name.
      role: JUDGE or INTERACTOR for the programs of problems; empty for a program under test.
    """

    path: str
    made: bytes = b""
    warnings: bytes = b""
    arguments: tuple[str, ...] = ()
    role: str = ""


# Called once, in the process that forks: returns what turns each forked process into the program. That call, just
# before the program's first instruction, returns only for a Python program, which runs where the interpreter's own text
# ends. The meter is read and closed when the program begins.
Become = Callable[[Prepared, "groups.Meter | None"], Callable[[], None]]


class Language(NamedTuple):
    """How programs of one language are made and run.

    Attributes:
      become: turns forked processes into the program.
      tool: turns a forked process into what reads the source on its standard input first, and exits with a status
        other than 0 where that is not a valid program.
      file: name of the source file.
      needs: file that the image has to have; empty where the interpreter of the runner is enough.
      leaves_binary: whether the tool leaves its result as PROGRAM_FILE in the scratch directory, rather than on its
        standard output.
      limits_factor: by how much seconds meant for compiled C are multiplied where a request asks for that; of the size
        that public judges allow.
    """

    become: Become
    tool: Become
    file: str = "program.py"
    needs: str = ""
    leaves_binary: bool = False
    limits_factor: float = 1.0


def in_memory(name: str, content: bytes) -> int:
    """Return the descriptor of a new file in memory that nobody can change any more; the caller closes it."""
    file = os.memfd_create(name, os.MFD_ALLOW_SEALING)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEALS)
    return file


def put_in_memory(content: bytes) -> None:
    """Store a binary at PROGRAM_DESCRIPTOR, as an in-memory file that nobody can change any more."""
    file = in_memory(PROGRAM_FILE, content)
    os.dup2(file, PROGRAM_DESCRIPTOR)
    os.close(file)


def unpack_files(role: str) -> None:
    """Lay out what a program of a problem reads, in the working directory of its process.

    The packed files, on standard input for a JUDGE and at FILES_DESCRIPTOR for an INTERACTOR, are a line with three
    sizes in bytes, then the test's input, the output to be judged and the answer. They become the files JUDGED_FILES,
    and FEEDBACK a folder for a message to the judges. The output becomes the standard input of a judge. An interactor,
    which has none to judge, may write there: what it writes takes the place of the packed files.

    A program that is called for one pass of several has a fourth part, what `_return_feedback` made of the folder after
    the pass before. Then the whole folder comes back in place of what it prints or writes.
    """
    source, target = (0, 1) if role == JUDGE else (FILES_DESCRIPTOR, FILES_DESCRIPTOR)
    content = b"".join(iter(functools.partial(os.read, source, 1 << 20), b""))
    head, _, rest = content.partition(b"\n")
    sizes = [*map(int, head.split())]
    has_passes = len(sizes) > len(JUDGED_FILES)
    if role == INTERACTOR:
        os.ftruncate(target, 0)
        os.lseek(target, 0, os.SEEK_SET)
    for name, size in zip(JUDGED_FILES, sizes, strict=False):
        if role == INTERACTOR and name == OUTPUT and not has_passes:
            os.symlink(f"/proc/self/fd/{target}", name)
            continue
        with open(name, "wb") as file:
            file.write(rest[:size])
        rest = rest[size:]
    os.mkdir(FEEDBACK)
    if not has_passes:
        # What a program of the problem says there stands where its output, or what it wrote, is read.
        os.symlink(f"/proc/self/fd/{target}", f"{FEEDBACK}/{MESSAGE}")
    if role == JUDGE:
        output = os.open(OUTPUT, os.O_RDONLY)
        os.dup2(output, 0)
        os.close(output)
    if has_passes:
        for name, text in json.loads(rest).items():
            with open(f"{FEEDBACK}/{name}", "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(text)
        _return_feedback(target)


def _return_feedback(target: int) -> None:
    """Go on in a child; this process waits for its end, writes the files of FEEDBACK as JSON, and ends likewise.

    Args:
      target: the descriptor to write to, which the child loses.
    """
    child = os.fork()
    if not child:
        if target == 1:
            os.dup2(2, 1)
        else:
            os.close(target)
        return
    # A conversation is over when the child has ended: nobody else may hold its pipes.
    for descriptor in {0, 1} - {target}:
        os.close(descriptor)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    texts = {}
    for entry in os.scandir(FEEDBACK):
        if entry.is_file(follow_symlinks=False):
            with open(entry.path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                texts[entry.name] = file.read()
    content = memoryview(json.dumps(texts).encode())
    while content:
        content = content[os.write(target, content) :]
    os._exit(code if code >= 0 else 128 - code)


def encoded(text: str) -> bytes:
    """Encode a text as UTF-8 and keep lone surrogates, which JSON can carry."""
    return text.encode("utf-8", "surrogatepass")


def in_forked_interpreter(program: Prepared, meter: groups.Meter | None) -> Callable[[], None]:
    """Run a Python program, marshalled code, in forked processes themselves.

    Nothing starts anew, so that only the program's own time is measured.
    """
    main = python.MainProgram(program.path, program.arguments, begin=functools.partial(clocks.mark_start, meter))

    def become() -> None:
        os.write(2, program.warnings)
        main.load(program.made)

    return become


def _in_each_child(become: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """Leave everything to the forked processes, where nothing of the program can be made ahead."""
    return functools.partial(functools.partial, become)


@_in_each_child
def compile_python(program: Prepared, _: groups.Meter | None) -> None:
    """Compile standard input as the interpreter would a file, and write the marshalled code to standard output.

    Does not return: the process exits with 0, or with 1 and the error on standard error.
    """
    os.close(clocks.START_DESCRIPTOR)
    source = b"".join(iter(functools.partial(os.read, 0, 1 << 16), b""))
    # Without this module the interpreter shows the lines that it warns of itself, blanks at their ends included.
    if "warnings" not in STARTED_WITH:
        sys.modules.pop("warnings", None)
    try:
        code = compile(source, program.path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        os.write(2, f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace"))
        os._exit(1)
    rest = memoryview(python.marshalled(code))
    while rest:
        rest = rest[os.write(1, rest) :]
    os._exit(0)


@_in_each_child
def interpret(program: Prepared, meter: groups.Meter | None, *, interpreter: str) -> None:
    """Replace this process by a fresh interpreter on the program's file; its start-up counts as the program's time."""
    clocks.mark_start(meter)
    os.execv(interpreter, [interpreter, program.path, *program.arguments])


@_in_each_child
def run_jar(program: Prepared, meter: groups.Meter | None) -> None:
    """Replace this process by a Java machine on the archive at PROGRAM_DESCRIPTOR; its start-up counts as well."""
    clocks.mark_start(meter)
    archive = f"/proc/self/fd/{PROGRAM_DESCRIPTOR}"
    os.execv(JAVA, [JAVA, *JAVA_FLAGS, "-cp", archive, "Main", *program.arguments])


@_in_each_child
def execute(program: Prepared, meter: groups.Meter | None) -> None:
    """Replace this process by the binary at PROGRAM_DESCRIPTOR."""
    clocks.mark_start(meter)
    os.execve(PROGRAM_DESCRIPTOR, [PROGRAM_FILE, *program.arguments], os.environ)


@_in_each_child
def run_tool(program: Prepared, meter: groups.Meter | None, *, command: tuple[str, ...]) -> None:
    """Replace this process by a tool of the image, which reads the source on its standard input.

    In its command `{folder}` stands for the folder of the program's files, `{scratch}` for the working directory, and
    OTHERS for the further files with the suffix of the program's own.
    """
    folder, main = os.path.split(program.path)
    suffix = os.path.splitext(main)[1]
    others = [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(suffix) and name != main]
    words = [part.format(folder=folder, scratch=os.getcwd()) for part in command]
    if OTHERS in words:
        place = words.index(OTHERS)
        words[place : place + 1] = others
    clocks.mark_start(meter)
    os.execve(words[0], words, os.environ)


def _native(*command: str, file: str, needs: str = "") -> Language:
    """Describe a language whose compiler makes a binary."""
    tool = functools.partial(run_tool, command=command)
    return Language(execute, tool, file, needs=needs or command[0], leaves_binary=True)


_CHECK = "import sys; compile(sys.stdin.read(), 'program.py', 'exec')"
_PROGRAM = ("-I{folder}", "-o", PROGRAM_FILE, "-", OTHERS)
# Another language is another entry; the image has to have its tool.
LANGUAGES = {
    "python3": Language(in_forked_interpreter, compile_python, limits_factor=5.0),
    "python3_fresh": Language(
        functools.partial(interpret, interpreter=sys.executable), compile_python, limits_factor=5.0
    ),
    "pypy3": Language(
        functools.partial(interpret, interpreter=PYPY),
        functools.partial(run_tool, command=(PYPY, "-c", _CHECK)),
        needs=PYPY,
        limits_factor=3.0,
    ),
    "c": _native(
        "/usr/bin/gcc",
        "-O2",
        "-std=c17",
        "-x",
        "c",
        "-I{folder}",
        "-o",
        PROGRAM_FILE,
        "-",
        OTHERS,
        "-lm",
        file="program.c",
    ),
    "cpp": _native(
        "/usr/bin/g++",
        "-O2",
        "-std=c++17",
        "-x",
        "c++",
        "-I{folder}",
        "-o",
        PROGRAM_FILE,
        "-",
        OTHERS,
        file="program.cpp",
    ),
    "rust": _native("/usr/bin/rustc", "-O", "--edition=2021", "-o", PROGRAM_FILE, "-", file="program.rs"),
    "go": _native("/usr/bin/env", *GO, "{folder}/program.go", OTHERS, file="program.go", needs="/usr/bin/go"),
    "java": Language(
        run_jar,
        functools.partial(run_tool, command=("/bin/sh", "-c", JAVA_TOOL)),
        file="Main.java",
        needs="/usr/bin/javac",
        leaves_binary=True,
        limits_factor=2.0,
    ),
    "javascript": Language(
        functools.partial(interpret, interpreter=NODE),
        functools.partial(run_tool, command=(NODE, "--check", "{folder}/program.js")),
        file="program.js",
        needs=NODE,
        limits_factor=3.0,
    ),
}


def present() -> list[str]:
    """Return the languages whose tools are where this runs."""
    return [name for name, language in LANGUAGES.items() if not language.needs or os.access(language.needs, os.X_OK)]
