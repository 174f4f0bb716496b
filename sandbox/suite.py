"""What a problem brings: its tests, what judges them, and the limits of a run. Frozen dataclasses with a JSON form.

A suite is named by the SHA-256 of its JSON. Everything here is validated when it is built, and nothing is run.
"""

import dataclasses
import functools
import hashlib
import re
import typing
from collections.abc import Sequence

from sandbox.messages import conform_fields, from_dict, parse_json, require, to_json

MEBIBYTE = 1 << 20
SERVICE_CAP_S = 10.0
MOST_SECONDS = 600
MOST_FILES = 100
MOST_PASSES = 1000
# The largest input that backends take by themselves, and the largest that any setting can allow.
INPUT_BYTES, MOST_INPUT_BYTES = 512 * MEBIBYTE, 1 << 40
CONVENTIONS = ("testlib", "kattis")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a program may use. The paper allows 1 GB and 10 s (App. C.1).

    Attributes:
      wall_s: wall-clock seconds, in (0, 600].
      memory_bytes: memory of all its processes together, from 16 MiB.
      output_bytes: standard output, from 1.
      processes: processes and threads at the same time, from 1.
      file_bytes: size of the largest file that it writes; values below `output_bytes` have no effect, because the
        kernel knows one limit for both.
      cpu_s: user plus system seconds of all its processes, in (0, 600]; None leaves it to the wall limit.

    Raises:
      InvalidRequestError: a limit is out of its range.
    """

    wall_s: float = SERVICE_CAP_S
    memory_bytes: int = 1024 * MEBIBYTE
    output_bytes: int = 16 * MEBIBYTE
    processes: int = 64
    file_bytes: int = 64 * MEBIBYTE
    cpu_s: float | None = None

    def __post_init__(self) -> None:
        conform_fields(self, path="limits.")
        is_bound = self.cpu_s is None or 0 < self.cpu_s <= MOST_SECONDS
        require(is_bound, "limits.cpu_s", self.cpu_s, f"0 < seconds <= {MOST_SECONDS}, or null for the wall limit")
        is_bound = 0 < self.wall_s <= MOST_SECONDS
        require(is_bound, "limits.wall_s", self.wall_s, f"0 < seconds <= {MOST_SECONDS}")
        for field, low, high in (
            ("memory_bytes", 16 * MEBIBYTE, 1 << 40),
            ("output_bytes", 1, 1 << 32),
            ("processes", 1, 1 << 16),
            ("file_bytes", 0, 1 << 40),
        ):
            value = getattr(self, field)
            require(low <= value <= high, f"limits.{field}", value, f"a whole number in [{low}, {high}]")


@dataclasses.dataclass(frozen=True)
class JudgeProgram:
    """A problem's own program that judges outputs; it runs in the sandbox, in a container of its own.

    Attributes:
      program: its source code.
      language: a name of `sandbox.inside.languages.LANGUAGES`.
      convention: `testlib` (called as `judge input output answer`; exits with 0 for right, 1, 2, 4 or 8 for wrong) or
        `kattis` (called as `judge input answer feedback/ < output`; 42 for right, 43 for wrong). Any other end is the
        problem's fault.
      arguments: further arguments of its command line.
      files: its further files by name.
      limits: what one run of it may use.
      passes: how often, at most, the program under test runs on a test, 1 to 1000. With more than one, a judge or an
        interactor by the `kattis` convention asks for another pass by exiting with 42 after it wrote the input of that
        pass into `feedback/nextpass.in`; other files of that folder stay for the next pass, and nothing else does.
        Limits hold for each pass, and the seconds of a test are those of its longest pass.

    Raises:
      InvalidRequestError: a field is of a wrong type or none of its choices.
    """

    FIELD: typing.ClassVar[str] = "suite.judge"

    program: str
    language: str = "cpp"
    convention: str = "testlib"
    arguments: tuple[str, ...] = ()
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    limits: Limits = Limits()
    passes: int = 1

    def __post_init__(self) -> None:
        conform_fields(self, path=f"{self.FIELD}.")
        require_files(self.files, f"{self.FIELD}.files")
        expected = f"one of {', '.join(CONVENTIONS)}"
        require(self.convention in CONVENTIONS, f"{self.FIELD}.convention", self.convention, expected)
        most = MOST_PASSES if self.convention == "kattis" else 1
        expected = f"a whole number in [1, {most}]: only programs by the kattis convention ask for several"
        require(1 <= self.passes <= most, f"{self.FIELD}.passes", self.passes, expected)


@dataclasses.dataclass(frozen=True)
class Interactor(JudgeProgram):
    """A problem's own program that talks to the program under test; both run at the same time, each in its own world.

    Its standard input is what the program prints, its standard output what the program reads. By the `testlib`
    convention it is called as `interactor input output answer`, where it may write `output` for the suite's judge, by
    the `kattis` convention as `interactor input answer feedback/`. It ends as a `JudgeProgram` does.

    Attributes:
      limits: processor seconds, memory, processes and output of its own; its wall limit runs from the program's end.
    """

    FIELD: typing.ClassVar[str] = "suite.interactor"


@dataclasses.dataclass(frozen=True)
class Call:
    """How tests call a function of a Python program, in place of reading input and printing.

    Attributes:
      entry_point: an expression that names what is called, such as `add` or `Solution().add`.
      tolerance: by how much floats may differ, absolutely or relatively.
    """

    entry_point: str
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        conform_fields(self, path="suite.call.")
        require(self.entry_point != "", "suite.call.entry_point", self.entry_point, "the name of what is called")
        require(0 <= self.tolerance < 1, "suite.call.tolerance", self.tolerance, "a number in [0, 1)")


@dataclasses.dataclass(frozen=True)
class StoredInput:
    """An input that was uploaded as a file, because it is too large for a message. `Client.upload_input` makes it.

    Attributes:
      sha256: content address, 64 hexadecimal digits.
      size_bytes: its size; how much is taken is the backend's to say, at least 512 MiB by default.
    """

    sha256: str
    size_bytes: int

    def __post_init__(self) -> None:
        conform_fields(self, path="suite.inputs.")
        is_digest = len(self.sha256) == 64 and set(self.sha256) <= set("0123456789abcdef")
        require(is_digest, "suite.inputs.sha256", self.sha256, "64 hexadecimal digits")
        is_fit = 0 <= self.size_bytes <= MOST_INPUT_BYTES
        require(is_fit, "suite.inputs.size_bytes", self.size_bytes, f"a whole number in [0, {MOST_INPUT_BYTES}]")


@dataclasses.dataclass(frozen=True)
class Suite:
    """The tests of one problem, at least one.

    Expected outputs stay with the pool; they enter a container only where a program of the problem needs them.

    Attributes:
      inputs: standard input of each of the k tests; those that programs of the problem read have to be texts.
      expected: the k outputs to expect; None where no output is known yet (a generator's run, a consensus run): there
        every run that exits cleanly is a success.
      checker: name of the comparison of outputs, see `sandbox.timing.checkers.checker_named`.
      judge: a program that judges outputs in place of a comparison; the only one whose container sees what is expected.
        None for none.
      interactor: a program that talks to the program under test, which does not see the inputs then; what it accepts
        is right, unless there is a judge as well, which looks at what it wrote. None for none.
      call: makes the inputs JSON lists of arguments and the outputs JSON values; None for plain input and output.

    Raises:
      InvalidRequestError: no test, uneven lengths, a field of a wrong type, or two that exclude each other.
    """

    inputs: tuple[str | StoredInput, ...]
    expected: tuple[str | None, ...]
    checker: str = "lines"
    judge: JudgeProgram | None = None
    call: Call | None = None
    interactor: Interactor | None = None

    def __post_init__(self) -> None:
        conform_fields(self, path="suite.")
        require(len(self.inputs) > 0, "suite.inputs", self.inputs, "at least one test")
        require(
            len(self.inputs) == len(self.expected),
            "suite.expected",
            f"{len(self.expected)} outputs",
            f"one for each of the {len(self.inputs)} inputs (null where unknown)",
        )
        are_texts = all(isinstance(text, str) for text in self.inputs) or not (
            self.judge or self.call or self.interactor
        )
        require(are_texts, "suite.inputs", "a stored input", "texts where a judge, an interactor or a call reads them")
        is_one = self.call is None or self.interactor is None
        require(is_one, "suite.interactor", "a program", "null where tests call a function")
        if self.judge is not None and self.interactor is not None:
            writes_output = self.interactor.convention == "testlib"
            require(writes_output, "suite.judge", "a program", "null beside an interactor of the kattis convention")
            require(self.judge.passes == 1, "suite.judge.passes", self.judge.passes, "1 beside an interactor")

    def text_of(self, test: int) -> str:
        """Return the input of a test that is a text; empty for a stored one."""
        text = self.inputs[test]
        return text if isinstance(text, str) else ""

    @functools.cached_property
    def sha256(self) -> str:
        """Content address under which a suite is uploaded once, as 64 hexadecimal digits."""
        return hashlib.sha256(to_json(self).encode("utf-8", "surrogatepass")).hexdigest()


@dataclasses.dataclass(frozen=True)
class ProblemPrograms:
    """The programs of an interactive problem, in the form in which a dataset stores them.

    Attributes:
      interactor: talks to the program under test.
      judge: looks at what the interactor wrote; None for none.
    """

    interactor: Interactor
    judge: JudgeProgram | None = None


def suite_judged_by(checker: str, *, inputs: Sequence[str], expected: Sequence[str | None]) -> Suite:
    """Make a suite whose outputs are judged as one text says, which a dataset can store.

    Args:
      checker: the name of a comparison, a JudgeProgram as JSON, or the ProblemPrograms of an interactive problem as
        JSON; only the first does not begin with a brace.
      inputs: standard input of each of the k tests; what the interactor reads where there is one.
      expected: the k outputs to expect; None where no output is known yet.

    Raises:
      InvalidRequestError: the JSON is neither, or there is no test.
    """
    tests = tuple(inputs), tuple(expected)
    if not checker.startswith("{"):
        return Suite(*tests, checker=checker)
    value = parse_json(checker, "checker")
    if isinstance(value, dict) and "interactor" in value:
        programs = from_dict(ProblemPrograms, value)
        return Suite(*tests, judge=programs.judge, interactor=programs.interactor)
    return Suite(*tests, judge=from_dict(JudgeProgram, value))


def limits_of_run(limits: Limits) -> dict[str, float | None]:
    """Convert limits to the form that a runner takes.

    Without a limit of its own, processor time may be as long as wall time.

    Returns:
      Every field of `Limits` by name, in the same units; `cpu_s` is never None.
    """
    return dataclasses.asdict(limits) | {"cpu_s": limits.wall_s if limits.cpu_s is None else limits.cpu_s}


def require_files(files: dict[str, str], field: str) -> None:
    """Check the names of a program's further files: no folders, and nothing that the program's own file is called.

    Raises:
      InvalidRequestError: a name is another, or there are too many files.
    """
    require(len(files) <= MOST_FILES, field, len(files), f"at most {MOST_FILES} files")
    for name in files:
        is_free = _FILE_NAME.fullmatch(name) is not None and name.partition(".")[0] != "program"
        require(is_free, field, name, "names of letters, digits, _, - and dots, none of them program.*")
