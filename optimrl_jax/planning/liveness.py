"""Bounds what a traced program holds in memory at once, without a compiler.

Pure: walks a jaxpr in its own order. An array lives from where it is computed to where it is last read. What compilers
fuse takes no memory of its own: element by element into its only reader, or in place of an operand that is no longer
needed. Arguments are the caller's to count.
"""

import math
import typing
from collections.abc import Callable, Collection, Iterator, Mapping

import jax
import jax.extend.core

# What is computed element by element, wherever it is read.
_ELEMENTWISE = {
    "add", "sub", "mul", "div", "neg", "exp", "exp2", "log", "max", "min", "rsqrt", "sqrt", "square", "integer_pow",
    "pow", "logistic", "tanh", "sign", "abs", "select_n", "convert_element_type", "broadcast_in_dim", "reshape",
    "squeeze", "expand_dims", "iota", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "clamp", "copy",
    "stop_gradient", "add_any", "rem", "is_finite", "pad", "slice", "rev", "transpose", "concatenate", "split", "name",
    "sin", "cos",
}  # fmt: skip
# What reads operands that were never written to memory.
_READS_FUSED = _ELEMENTWISE | {"reduce_sum", "reduce_max", "reduce_min", "argmax", "reduce_and", "reduce_or"}

_CALLS = ("jit", "pjit", "closed_call", "custom_jvp_call")

# Bytes of an array, given its shape and type and whether it is computed within a loop.
Size = Callable[[typing.Any, bool], int]


def array_bytes(array: typing.Any, _: bool = False) -> int:
    """Return the bytes of an array or of its shape."""
    return math.prod(array.shape) * array.dtype.itemsize if hasattr(array, "dtype") else 0


def peak_bytes(jaxpr: typing.Any, size: Size = array_bytes, *, in_loop: bool = False, is_turn: bool = False) -> int:
    """Bound the bytes that a program holds at once beside its arguments.

    Args:
      jaxpr: of `jax.make_jaxpr`, open or closed.
      size: bytes of an array.
      in_loop: whether the program runs within a loop.
      is_turn: whether it is one turn of a loop, whose results are written where those of the loop lie.
    """
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    lives = _lifetimes(jaxpr)
    elsewhere = {v for v in jaxpr.outvars if is_turn and not _is_constant(v)} | lives.fused
    live, peak = 0, 0
    alive: dict[typing.Any, int] = {}
    for place, equation in enumerate(jaxpr.eqns):
        made = {v: size(v.aval, in_loop) for v in equation.outvars if v in lives.last and v not in elsewhere}
        results, written, within = sum(made.values()), 0, 0
        if _fuses(equation, _ELEMENTWISE):
            dying = [alive[v] for v in _operands(equation) if v in alive and lives.last[v] == place]
            results -= min(results, max(dying, default=0))
        if not _fuses(equation, _READS_FUSED):
            loops = in_loop or _is_loop(equation)
            written = sum(size(v.aval, loops) for v in _needed(equation) if v in lives.fused)
            within = max((_inside(equation, inner, size, loops, lives.read) for inner in _inner(equation)), default=0)
        # What was only read to compute fused operands makes room for them.
        sources = [count for v, count in alive.items() if lives.last[v] == place and lives.read[v] < place]
        live += max(0, written - sum(sources))
        peak = max(peak, live + max(results, within))
        live += sum(made.values()) - max(0, written - sum(sources))
        alive |= made
        live -= sum(alive.pop(v) for v in [v for v in alive if lives.last[v] <= place])
    return max(peak, live)


class _Lifetimes(typing.NamedTuple):
    """Of the variables of a program.

    Attributes:
      fused: those that are never written to memory, or only for one reader.
      read: the last equation that reads each.
      last: the last equation that needs each, be it to compute what is fused.
    """

    fused: set[typing.Any]
    read: Mapping[typing.Any, int]
    last: Mapping[typing.Any, int]


def _lifetimes(jaxpr: typing.Any) -> _Lifetimes:
    readers = _readers(jaxpr)
    reads_fused = [_fuses(equation, _READS_FUSED) for equation in jaxpr.eqns]
    fused = set()
    for equation in jaxpr.eqns:
        is_fused = _fuses(equation, _ELEMENTWISE)
        for variable in equation.outvars:
            places = readers.get(variable, [])
            if (is_fused and _is_computed_anew(places, reads_fused)) or _is_added(equation, places, jaxpr):
                fused.add(variable)
    read = {variable: max(places) for variable, places in readers.items()}
    last = dict(read)
    for equation in reversed(jaxpr.eqns):
        until = max((last.get(variable, 0) for variable in equation.outvars if variable in fused), default=0)
        for variable in _operands(equation):
            last[variable] = max(last[variable], until)
    return _Lifetimes(fused, read, last)


def _fuses(equation: typing.Any, names: Collection[str]) -> bool:
    """Tell whether an equation, or all that it calls, is one of `names`."""
    inner = list(_inner(equation))
    if equation.primitive.name in _CALLS and inner:
        return all(_fuses(one, names) for program in inner for one in program.eqns)
    return equation.primitive.name in names


def _is_added(equation: typing.Any, places: list[int], jaxpr: typing.Any) -> bool:
    """Tell whether an equation is a product that is only added to something: its sums begin there."""
    if len(places) != 1 or places[0] == len(jaxpr.eqns) or not _fuses(equation, _ELEMENTWISE | {"dot_general"}):
        return False
    return jaxpr.eqns[places[0]].primitive.name in ("add", "add_any") and not _fuses(equation, _ELEMENTWISE)


def _is_computed_anew(places: list[int], reads_fused: list[bool]) -> bool:
    """Tell whether what is read in these places is computed in each of them: at most one wants it in memory."""
    return len(reads_fused) not in places and sum(not reads_fused[place] for place in places) <= 1


def _inside(equation: typing.Any, inner: typing.Any, size: Size, in_loop: bool, read: Collection[typing.Any]) -> int:
    """Bound what is held while an equation with a program of its own runs, its results included."""
    is_turn = _is_loop(equation)
    body = peak_bytes(inner, size, in_loop=in_loop, is_turn=is_turn)
    # The results of a loop are there from its first turn on.
    return body + sum(size(variable.aval, in_loop) for variable in equation.outvars if variable in read) * is_turn


def _is_loop(equation: typing.Any) -> bool:
    return equation.primitive.name in ("scan", "while")


def _needed(equation: typing.Any) -> list[typing.Any]:
    """List the operands that have to be in memory, but for those that a loop begins with: its results replace them."""
    if equation.primitive.name == "scan":
        first = equation.params["num_consts"]
        begins = range(first, first + equation.params["num_carry"])
    elif equation.primitive.name == "while":
        begins = range(equation.params["cond_nconsts"] + equation.params["body_nconsts"], len(equation.invars))
    else:
        begins = range(0)
    return [v for place, v in enumerate(equation.invars) if place not in begins and not _is_constant(v)]


def _readers(jaxpr: typing.Any) -> dict[typing.Any, list[int]]:
    """Say where each variable is read; what is returned is read behind the last equation."""
    found: dict[typing.Any, list[int]] = {}
    for place, equation in enumerate(jaxpr.eqns):
        for variable in set(_operands(equation)):
            found.setdefault(variable, []).append(place)
    for variable in jaxpr.outvars:
        if not _is_constant(variable):
            found.setdefault(variable, []).append(len(jaxpr.eqns))
    return found


def _is_constant(variable: typing.Any) -> bool:
    return isinstance(variable, jax.extend.core.Literal)


def _operands(equation: typing.Any) -> list[typing.Any]:
    return [variable for variable in equation.invars if not _is_constant(variable)]


def _inner(equation: typing.Any) -> Iterator[typing.Any]:
    for parameter in jax.tree.leaves(tuple(equation.params.values()), is_leaf=_has_jaxpr):
        if _has_jaxpr(parameter):
            yield getattr(parameter, "jaxpr", parameter)


def _has_jaxpr(value: object) -> bool:
    """Tell whether a parameter of an equation is a program."""
    return hasattr(value, "jaxpr") or hasattr(value, "eqns")
