"""Counts the bytes that the kernels of a compiled program move between a device and its memory.

Pure: takes the text of an optimized XLA program, as `compiled_program` does. What a kernel reads and writes is what
stands in the text: the arrays of each instruction that is not inside a fusion, of those that a fusion only slices the
slices, of those that it updates in place the update. Caches of a device may answer some of it; nothing here knows.
"""

import math
import re
from collections.abc import Mapping

from optimrl_jax.planning.compiled_program import ITEM_BYTES, Instruction, read_computations, walk

# What moves nothing by itself: names, constants, and what walks into other computations.
_FREE = {
    "parameter", "tuple", "get-tuple-element", "bitcast", "constant", "iota", "while", "conditional", "call",
    "after-all", "partition-id", "replica-id", "opt-barrier", "copy-done", "async-done", "async-update",
}  # fmt: skip
_SLICES = ("dynamic-slice", "slice", "gather")
_UPDATES = ("dynamic-update-slice", "scatter")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.\-]+)")
_CALLS = re.compile(r"calls=%?([\w.\-]+)")

_Computation = Mapping[str, Instruction]


def moved_bytes(text: str, *, takes_constants: bool = True) -> int:
    """Sum the bytes that all kernels of a program read and write, loops of known length counted.

    Args:
      text: of `compiled.as_text()`.
      takes_constants: see `compiled_program.walk`; False where loops end by the data, to count one turn of them.

    Raises:
      ValueError: if it has no entry computation.
    """
    computations, entry = read_computations(text)
    named = {
        name: {instruction.name: instruction for instruction in instructions}
        for name, instructions in computations.items()
    }
    fused = {
        found.group(1)
        for instructions in computations.values()
        for instruction in instructions
        if instruction.opcode == "fusion" and (found := _CALLS.search(instruction.line))
    }
    return sum(
        times * _moved(instruction, named[computation], named)
        for computation, instruction, times in walk(computations, entry, skipped=fused, takes_constants=takes_constants)
        if instruction.opcode not in _FREE and not instruction.opcode.endswith("-done")
    )


def _moved(instruction: Instruction, computation: _Computation, named: Mapping[str, _Computation]) -> int:
    operands = [_bytes(computation[name].result) for name in _operands(instruction) if name in computation]
    written = _bytes(instruction.result)
    if instruction.opcode in _SLICES or instruction.opcode.startswith("copy"):
        return 2 * min(written, max(operands, default=written))
    if instruction.opcode in _UPDATES:
        return 2 * (operands[1] if len(operands) > 1 else written)
    found = _CALLS.search(instruction.line)
    if instruction.opcode == "fusion" and found and found.group(1) in named:
        return _moved_by_fusion(named[found.group(1)])
    return written + sum(operands)


def _moved_by_fusion(inside: _Computation) -> int:
    """Count what a fusion reads of its parameters and writes of its results."""
    users: dict[str, list[tuple[Instruction, int]]] = {}
    for instruction in inside.values():
        for place, name in enumerate(_operands(instruction)):
            users.setdefault(name, []).append((instruction, place))
    read = sum(
        _read(instruction, users.get(instruction.name, []), users)
        for instruction in inside.values()
        if instruction.opcode == "parameter"
    )
    root = next((instruction for instruction in inside.values() if instruction.is_root), None)
    return read + (_written(root, inside) if root else 0)


def _read(
    source: Instruction, uses: list[tuple[Instruction, int]], users: Mapping[str, list[tuple[Instruction, int]]]
) -> int:
    total, whole = 0, _bytes(source.result)
    for user, place in uses:
        if user.opcode in _SLICES and place == 0:
            total += _bytes(user.result)
        elif user.opcode in _UPDATES and place == 0:
            continue
        elif user.opcode == "bitcast":
            total += _read(user, users.get(user.name, []), users)
        else:
            return whole
    return min(total, whole)


def _written(root: Instruction, inside: _Computation) -> int:
    names = [name for name in _operands(root) if name in inside]
    if root.opcode == "tuple":
        return sum(_written(inside[name], inside) for name in names)
    if root.opcode == "bitcast" and names:
        return _written(inside[names[0]], inside)
    if root.opcode in _UPDATES and len(names) > 1:
        return _bytes(inside[names[1 if root.opcode == "dynamic-update-slice" else -1]].result)
    return _bytes(root.result)


def _operands(instruction: Instruction) -> list[str]:
    """List the operands by name: what stands between the parentheses behind the opcode."""
    start = instruction.line.index("(", len(instruction.result))
    depth = 0
    for at in range(start, len(instruction.line)):
        depth += {"(": 1, ")": -1}.get(instruction.line[at], 0)
        if not depth:
            return _OPERAND.findall(instruction.line[start:at])
    return []


def _bytes(text: str) -> int:
    arrays = [(kind, dims) for kind, dims in _ARRAY.findall(text) if kind in ITEM_BYTES]
    return sum(ITEM_BYTES[kind] * math.prod(int(n) for n in dims.split(",") if n) for kind, dims in arrays)
