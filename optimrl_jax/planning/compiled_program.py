"""Reads what a compiler made of a program: what its devices send, in which loops, and which kernels they run.

Pure: takes the text of an optimized XLA program (`compiled.as_text()`), for any platform. Loops are followed with the
trip counts that XLA knows; one whose count depends on data counts as one turn. Never runs anything.
"""

import dataclasses
import math
import re
from collections.abc import Collection, Iterator, Mapping

ITEM_BYTES = dict.fromkeys(("pred", "s8", "u8", "f8e4m3fn", "f8e5m2"), 1)
ITEM_BYTES |= dict.fromkeys(("bf16", "f16", "s16", "u16"), 2) | dict.fromkeys(("f32", "s32", "u32"), 4)
ITEM_BYTES |= dict.fromkeys(("f64", "s64", "u64"), 8)
KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")

_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*)?\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_OPCODE = re.compile(r"(?:^|[\s)}\]])([a-z][a-z\-]*)\(")
_TRIPS = re.compile(r'known_trip_count":\{"n":"(\d+)"')
_CALLED = re.compile(r"(?:body|to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_NAME = re.compile(r'op_name="([^"]*)"')
_ENTERED = ("while", "conditional", "call", "async-start")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')


@dataclasses.dataclass(frozen=True)
class Collective:
    """One kind of message of a program.

    Attributes:
      kind: one of KINDS.
      arrays: (type, shape) of what each device ends up with, one entry for each array that is sent together.
      times: how often the program runs it, loops of known length counted.
      loops: the number of loops that it stands in.
      name: where it comes from in the traced program.
    """

    kind: str
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    times: int
    loops: int
    name: str

    @property
    def largest_bytes(self) -> int:
        """Bytes of the largest array."""
        return max((array_bytes(array) for array in self.arrays), default=0)

    @property
    def sent_bytes(self) -> int:
        """Bytes that a device sends and receives in all runs: those of the result, or twice as many for a sum."""
        return self.times * sum(map(array_bytes, self.arrays)) * (2 if self.kind == "all-reduce" else 1)


@dataclasses.dataclass(frozen=True)
class Program:
    """What a compiled program sends and which kernels it runs.

    Attributes:
      collectives: one entry for each message in its text.
      kernels: Pallas kernels by their names and other custom calls by their targets, with how often each runs.
    """

    collectives: tuple[Collective, ...]
    kernels: Mapping[str, int]

    def sent_bytes(self) -> dict[str, int]:
        """Sum the bytes that one device sends and receives, by kind; kinds that do not occur are 0."""
        sums = dict.fromkeys(KINDS, 0)
        for collective in self.collectives:
            sums[collective.kind] += collective.sent_bytes
        return sums


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a computation, read as far as it is needed here.

    Attributes:
      name: of its result.
      opcode: what it does.
      result: text of the type of its result.
      line: all that stands behind the equals sign.
      is_root: whether it is the result of its computation.
    """

    name: str
    opcode: str
    result: str
    line: str
    is_root: bool


def read_program(text: str) -> Program:
    """Read the text of an optimized program.

    Args:
      text: of `compiled.as_text()`.

    Raises:
      ValueError: if it has no entry computation.
    """
    computations, entry = read_computations(text)
    collectives: list[Collective] = []
    kernels: dict[str, int] = {}
    for instruction, times, loops in _walk(computations, entry, 1, 0):
        kind = instruction.opcode.removesuffix("-start")
        if kind in KINDS:
            arrays = _arrays(instruction.result)
            if instruction.opcode.endswith("-start"):
                arrays = _started(arrays)
            if kind == "reduce-scatter":
                arrays = _operand_arrays(instruction, arrays)
            name = _NAME.search(instruction.line)
            collectives.append(Collective(kind, arrays, times, loops, name.group(1) if name else ""))
        elif instruction.opcode == "custom-call" and (target := _TARGET.search(instruction.line)):
            name = _kernel_name(instruction.line, target.group(1))
            kernels[name] = kernels.get(name, 0) + times
    return Program(tuple(collectives), kernels)


def _started(arrays: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the results among what an asynchronous message returns: operands, results, on TPU marks of its state."""
    sent = tuple(array for array in arrays if array != ("u32", ()))
    return sent[len(sent) // 2 :] if len(sent) > 1 else sent


def _kernel_name(line: str, target: str) -> str:
    """Return the name that a Pallas kernel was given, else the target of the custom call."""
    named = re.search(r'[/"(](\w+)\)*/pallas_call"', line)
    return named.group(1) if named else target


def _operand_arrays(
    instruction: Instruction, results: tuple[tuple[str, tuple[int, ...]], ...]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Scale the results of a reduce-scatter to its operand, which is what it sends.

    The operand holds as many times the result as a group has devices.
    """
    groups = re.search(r"replica_groups=\{\{([\d,]*)\}", instruction.line)
    iota = re.search(r"replica_groups=\[\d+,(\d+)\]", instruction.line)
    size = len(groups.group(1).split(",")) if groups else int(iota.group(1)) if iota else _mesh_group(instruction.line)
    return tuple((kind, (size * shape[0], *shape[1:]) if shape else shape) for kind, shape in results)


def _mesh_group(line: str) -> int:
    """Count the devices of a group that is given by axes of a mesh: mesh['a'=8,'b'=1] {'a'}."""
    found = re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", line)
    if not found:
        return 1
    sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", found.group(1))}
    return math.prod(sizes.get(name, 1) for name in re.findall(r"'(\w+)'", found.group(2)))


def read_computations(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """Read the computations of an optimized program by name, and the name of the entry computation.

    Raises:
      ValueError: if it has none.
    """
    computations: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    entry = ""
    for line in text.splitlines():
        if line and not line[0].isspace() and (header := _HEADER.match(line)):
            current = computations[header.group(2)] = []
            entry = header.group(2) if header.group(1) else entry
        elif found := _INSTRUCTION.match(line):
            is_root, name, rest = found.groups()
            opcode = _OPCODE.search(rest)
            if opcode:
                current.append(Instruction(name, opcode.group(1), rest[: opcode.start(1)], rest, bool(is_root)))
    if not entry:
        raise ValueError("expected the text of a compiled program with an entry computation")
    return computations, entry


def _walk(
    computations: Mapping[str, list[Instruction]], name: str, times: int, loops: int
) -> Iterator[tuple[Instruction, int, int]]:
    """Yield every instruction of a computation and of all that it calls.

    Each comes with how often it runs and in how many loops it stands.
    """
    for instruction in computations.get(name, ()):
        yield instruction, times, loops
        is_loop = instruction.opcode == "while"
        inner = times * (_trip_count(computations, instruction.line) if is_loop else 1)
        # Reductions and sorts also name a computation, of two numbers: walking it finds nothing and does no harm.
        for other in _called(instruction):
            yield from _walk(computations, other, inner, loops + is_loop)


def walk(
    computations: Mapping[str, list[Instruction]],
    name: str,
    *,
    skipped: Collection[str] = (),
    times: int = 1,
    takes_constants: bool = True,
) -> Iterator[tuple[str, Instruction, int]]:
    """Yield (computation, instruction, how often it runs) of all that a program runs.

    Args:
      computations: those of `read_computations`.
      name: of the computation to begin with.
      skipped: computations that are not entered, such as those of fusions.
      times: how often the first one runs.
      takes_constants: whether a loop whose turns XLA does not state runs as often as the largest constant of its
        condition says, or once.
    """
    for instruction in computations.get(name, ()):
        yield name, instruction, times
        inner = times
        if instruction.opcode == "while" and (takes_constants or _TRIPS.search(instruction.line)):
            inner *= _trip_count(computations, instruction.line)
        if instruction.opcode in _ENTERED:
            for other in _called(instruction):
                if other not in skipped:
                    yield from walk(computations, other, skipped=skipped, times=inner, takes_constants=takes_constants)


def _called(instruction: Instruction) -> list[str]:
    called = _CALLED.findall(instruction.line)
    if branches := _BRANCHES.search(instruction.line):
        called += re.findall(r"[\w.\-]+", branches.group(1))
    return called


def _trip_count(computations: Mapping[str, list[Instruction]], line: str) -> int:
    """Count the turns of a loop: as XLA states them, else the constant that its condition compares with, else 1."""
    if stated := _TRIPS.search(line):
        return int(stated.group(1))
    condition = re.search(r"condition=%?([\w.\-]+)", line)
    inside = [other.line for other, _, _ in _walk(computations, condition.group(1), 1, 0)] if condition else []
    constants = [int(count) for text in inside for count in re.findall(r"^s32\[\]\S* constant\((\d+)\)", text)]
    return max(constants, default=1)


def _arrays(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found = _ARRAY.findall(text)
    return tuple((kind, tuple(int(n) for n in dims.split(",") if n)) for kind, dims in found if kind in ITEM_BYTES)


def array_bytes(array: tuple[str, tuple[int, ...]]) -> int:
    """Return the bytes of an array of this (type, shape)."""
    kind, shape = array
    return ITEM_BYTES[kind] * math.prod(shape)
