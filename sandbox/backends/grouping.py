"""Which inputs a runner holds at the same time. Pure."""

from collections.abc import Iterator, Sequence

from sandbox.protocol import Suite

# Inputs that a runner keeps at most: half of the file system that a container has for them.
HELD_BYTES = 128 << 20


def groups_of(suite: Suite, tests: Sequence[int]) -> Iterator[list[int]]:
    """Yield the tests in order, split where the inputs of a group would not fit into a runner together."""
    group, held, held_bytes = [], set(), 0
    for test in tests:
        size = 0 if test in held else bytes_of(suite, [test])
        if group and held_bytes + size > HELD_BYTES:
            yield group
            group, held, held_bytes, size = [], set(), 0, bytes_of(suite, [test])
        group.append(test)
        held.add(test)
        held_bytes += size
    if group:
        yield group


def bytes_of(suite: Suite, tests: Sequence[int]) -> int:
    """Return how many bytes the inputs of these tests take, each counted once; a stored one fills the room alone."""
    texts_bytes = sum(len(suite.text_of(test).encode("utf-8", "surrogatepass")) for test in set(tests))
    return texts_bytes + HELD_BYTES * sum(file_of(suite, test) != "" for test in set(tests))


def file_of(suite: Suite, test: int) -> str:
    """Return the content address of the file that a test reads; empty where its input is a text."""
    stored = suite.inputs[test]
    return "" if isinstance(stored, str) else stored.sha256
