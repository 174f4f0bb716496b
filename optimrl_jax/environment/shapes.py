"""A few padded shapes for a whole dataset of ragged problems, so that judging it compiles a few times only."""

from collections.abc import Iterable

Size = tuple[int, ...]


def bounded_shapes(sizes: Iterable[Size], *, most: int = 8) -> list[Size]:
    """At most `most` shapes, smallest first, that hold every one of `sizes` with little padding.

    A size counts the tests and references of one problem. Starts from the next powers of two and merges, again and
    again, the two shapes whose union adds the fewest padded cells over all problems. Raises ValueError for `most` < 1.
    """
    if most < 1:
        raise ValueError(f"most = {most}: expected at least 1")
    problems: dict[Size, int] = {}
    for size in sizes:
        shape = tuple(1 << max(0, axis - 1).bit_length() for axis in size)
        problems[shape] = problems.get(shape, 0) + 1
    while len(problems) > most:
        names = list(problems)
        pairs = [(names[i], names[j]) for i in range(len(names)) for j in range(i)]
        left, right = min(pairs, key=lambda pair: _added_cells(*pair, problems))
        merged = problems.pop(left) + problems.pop(right)
        union = _union(left, right)
        problems[union] = problems.get(union, 0) + merged
    return sorted(problems, key=lambda shape: (_cells(shape), shape))


def shape_for(size: Size, shapes: Iterable[Size]) -> Size:
    """The smallest of `shapes` that holds `size`; raises ValueError if none does."""
    fitting = [shape for shape in shapes if all(axis <= wide for axis, wide in zip(size, shape, strict=True))]
    if not fitting:
        raise ValueError(f"size = {size}: expected one that fits a shape of {sorted(shapes)}")
    return min(fitting, key=_cells)


def _cells(shape: Size) -> int:
    cells = 1
    for axis in shape:
        cells *= axis
    return cells


def _union(left: Size, right: Size) -> Size:
    return tuple(max(axes) for axes in zip(left, right, strict=True))


def _added_cells(left: Size, right: Size, problems: dict[Size, int]) -> int:
    union = _cells(_union(left, right))
    return (union - _cells(left)) * problems[left] + (union - _cells(right)) * problems[right]
