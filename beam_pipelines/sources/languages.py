"""What sources call a programming language, and what the sandbox calls it. Pure."""

import dataclasses
import pathlib
import re
from collections.abc import Iterable

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Solution

# Names of the sandbox on the right; python2 is known so that it can be told from python3, and never runs.
LANGUAGE_NAMES = {
    "python3": "python3",
    "python 3": "python3",
    "python": "python3",
    "py3": "python3",
    "py": "python3",
    "pypy3": "pypy3",
    "pypy 3": "pypy3",
    "python2": "python2",
    "python 2": "python2",
    "py2": "python2",
    "pypy2": "python2",
    "cpp": "cpp",
    "c++": "cpp",
    "c": "c",
    "java": "java",
    "go": "go",
    "golang": "go",
    "rust": "rust",
    "javascript": "javascript",
    "node.js": "javascript",
}
# A version or a compiler may follow; "C#" is not C, "JavaScript" is not Java.
AFTER_A_NAME = tuple(" .-_(0123456789")
SUFFIXES = {
    ".py": "python3",
    ".py3": "python3",
    ".py2": "python2",
    ".c": "c",
    ".java": "java",
    ".go": "go",
    ".rs": "rust",
    ".js": "javascript",
} | dict.fromkeys((".cpp", ".cc", ".cxx", ".c++", ".C"), "cpp")
# The class that a Java machine is started with, as sources declare it.
JAVA_CLASS = re.compile(r"\bclass\s+(\w+)[^{;]*\{(?:(?!\bclass\b).)*?\bstatic\s+(?:final\s+)?void\s+main\b", re.DOTALL)


def language_named(name: object) -> str:
    """Return the sandbox's name for a language that a source names in words; empty for one it does not know.

    Versions and compilers after the name do not matter: "C++17 (GCC 7-32)" is cpp, "Python 3.8" is python3.
    """
    words = str(name).strip().lower()
    if words in LANGUAGE_NAMES:
        return LANGUAGE_NAMES[words]
    known = [known for known in LANGUAGE_NAMES if words.startswith(known) and words[len(known) :][:1] in AFTER_A_NAME]
    return LANGUAGE_NAMES[max(known, key=len)] if known else ""


def language_of_file(path: pathlib.PurePath) -> str:
    """Return the sandbox's name for the language of a source file by its suffix; empty for others."""
    # A capital C is C++, a small one is C.
    return SUFFIXES.get(path.suffix, "") or SUFFIXES.get(path.suffix.lower(), "")


def select_languages(solutions: Iterable[Solution], options: BuildOptions) -> tuple[Solution, ...]:
    """Keep the solutions in languages that the build takes.

    What a source calls Python 2 may be valid Python 3, and the other way round. It comes along with Python 3, under
    that name, and the stage `labels` tells the two apart by their texts.

    Args:
      solutions: in any languages.
      options: `languages` says which.
    """
    named = (dataclasses.replace(one, language="python3") if one.language == "python2" else one for one in solutions)
    taken = (solution for solution in named if solution.language in options.languages.split(","))
    return tuple(
        dataclasses.replace(one, program=with_main_class(one.program)) if one.language == "java" else one
        for one in taken
    )


def with_main_class(program: str) -> str:
    """Give the class of a Java program that holds `main` the name Main, under which the sandbox starts it.

    Judges name a file after its class; here the name is fixed. A program without such a class stays as it is.
    """
    found = JAVA_CLASS.search(program)
    if found is None or found[1] == "Main" or re.search(r"\bMain\b", program):
        return program
    return re.sub(rf"\b{found[1]}\b", "Main", program)
