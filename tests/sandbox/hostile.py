"""Programs that attack what runs them, by kind: the files of the folder `hostile_programs`, parted by three hyphens.

The first line of each names the program and the verdicts that are right. `refused` stands for a single statement that
the sandbox has to refuse: it is wrapped into a program that prints the right answer only where the statement raises.
"""

import pathlib
from typing import NamedTuple

from sandbox.protocol import Limits, RunRequest, Suite, Verdict

MEBIBYTE = 1 << 20
SECRET = "the-other-tests-input"
SUITE = Suite(inputs=("3\n", SECRET), expected=("6\n", "the-expected-output\n"))
FOLDER = pathlib.Path(__file__).with_name("hostile_programs")
LONG_S, MIDDLE_S, SHORT_S = 3.0, 0.5, 0.15
ATTEMPT = (
    "import os, sys, glob, signal, ctypes, socket, subprocess\n"
    "try:\n    {}; print('escaped')\nexcept Exception:\n    print(6)\n"
)
# Prints 6 where an earlier program has left nothing: no file, no process, no System V object.
CLEAN = (
    "import ctypes, glob, os\nn = int(input())\nleft = [p for p in ('/tmp', '/dev/shm') for _ in os.listdir(p)]\n"
    "own = [p for p in glob.glob('/proc/[0-9]*') if int(p[6:]) not in (1, os.getpid(), os.getppid())]\n"
    "shared = max(ctypes.CDLL(None).shmget(77, 0, 0), -1) + 1\n"
    "print((left, own, shared) if left or own or shared else 2 * n)"
)


class HostileProgram(NamedTuple):
    """One attack and the verdicts that it may get."""

    kind: str
    name: str
    program: str
    verdicts: tuple[Verdict, ...]

    @property
    def limits(self) -> Limits:
        """What may end by its time limit need not have much of it; what must not has enough on a busy machine."""
        wall_s = MIDDLE_S if Verdict.TIME_LIMIT in self.verdicts else LONG_S
        wall_s = SHORT_S if self.verdicts == (Verdict.TIME_LIMIT,) else wall_s
        return Limits(wall_s=wall_s, memory_bytes=256 * MEBIBYTE, output_bytes=MEBIBYTE, processes=32)

    @property
    def request(self) -> RunRequest:
        return RunRequest(self.program, SUITE.sha256, tests=(0,), limits=self.limits)


def _program_of(kind: str, part: str) -> HostileProgram:
    head, body = part.split("\n", 1)
    name, _, verdicts = head.removeprefix("# ").partition(": ")
    if verdicts == "refused":
        return HostileProgram(kind, name, ATTEMPT.format(body.strip()), (Verdict.SUCCESS,))
    return HostileProgram(kind, name, body, tuple(map(Verdict, verdicts.split())))


HOSTILE = [
    _program_of(path.stem, part)
    for path in sorted(FOLDER.glob("*.txt"))
    for part in path.read_text(encoding="utf-8").split("---\n")
]
