"""Input generators in C and C++: how such a program gets the arguments of its command line. Pure.

The sandbox starts programs without arguments. A second source file, compiled with the generator, reads them from
standard input before anything of the generator runs, and starts the program anew with them: one compilation serves
all calls, and the text of the generator stays as it is.
"""

from collections.abc import Sequence

from beam_pipelines.records import Generator

SUFFIXES = {"c": ".c", "cpp": ".cpp"}
# Valid in both languages. The new name tells the program that was started anew from the first one.
_STARTER = """\
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20, MOST_ARGUMENTS = 1 << 12 };

__attribute__((constructor)) static void start_with_arguments(int count, char **own, char **environment) {
    static char text[MOST_BYTES + 1];
    static char *arguments[MOST_ARGUMENTS + 1];
    size_t size = 0;
    ssize_t part;
    int number = 0;
    if (count > 0 && strcmp(own[0], "generator") == 0)
        return;
    while (size < MOST_BYTES && (part = read(0, text + size, MOST_BYTES - size)) > 0)
        size += (size_t)part;
    arguments[number++] = (char *)"generator";
    for (char *next = text; next < text + size && number < MOST_ARGUMENTS; next += strlen(next) + 1)
        arguments[number++] = next;
    execve("/proc/self/exe", arguments, environment);
    _exit(127);
}
"""


def files_of(generator: Generator) -> dict[str, str]:
    """Return the further files of a compiled generator by name, with the one that starts it with arguments.

    Args:
      generator: in a language of SUFFIXES.
    """
    return dict(generator.files) | {f"start_with_arguments{SUFFIXES[generator.language]}": _STARTER}


def pack_arguments(arguments: Sequence[str]) -> str:
    """Return the input that starts a compiled generator with these arguments, none of which holds a zero byte."""
    return "".join(f"{argument}\0" for argument in arguments)
