"""The trusted answers of the embedded corpus: what each operation asks of an input, without any program. Pure.

Written as the definition reads, not as a solution would be: slow, with other means than the programs, so that a mistake
in one is not repeated in the other. Every function takes the criterion that distinguishes the operations of its family
and gives a function from the text of an input to the integer that is asked for.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

Answer = Callable[[str], int]
Collect = Callable[[Sequence[int]], int]


def _integers(text: str) -> list[int]:
    return [int(token) for token in text.split()]


def _pairs(holds: Callable[[int, int], bool]) -> Answer:
    """Count the pairs of positions i < j whose values meet the criterion."""

    def answer(text: str) -> int:
        _, *a = _integers(text)
        return sum(holds(a[i], a[j]) for j in range(len(a)) for i in range(j))

    return answer


def _segments(collect: Collect) -> Answer:
    """Collect, over all positions i, the sum of the values from position b[i] to i."""

    def answer(text: str) -> int:
        n, *rest = _integers(text)
        a, b = rest[:n], rest[n:]
        return collect([sum(a[k] for k in range(n) if b[i] <= k <= i) for i in range(n)])

    return answer


def _blocks(collect: Collect) -> Answer:
    """Collect, over all starts, the number of blocks from there whose sum is at most 6000."""

    def answer(text: str) -> int:
        _, *a = _integers(text)
        sums_from = [list(itertools.accumulate(a[i:])) for i in range(len(a))]
        return collect([sum(total <= 6000 for total in totals) for totals in sums_from])

    return answer


def _frequency(collect: Collect) -> Answer:
    """Collect, over all values, how often each occurs."""

    def answer(text: str) -> int:
        a = text.split()[1:]
        return collect([a.count(token) for token in a])

    return answer


def _sorting(collect: Collect) -> Answer:
    """Collect the values in ascending order."""

    def answer(text: str) -> int:
        _, *left = _integers(text)
        ordered = []
        while left:
            ordered.append(left.pop(left.index(min(left))))
        return collect(ordered)

    return answer


def _substrings(holds: Callable[[int], bool]) -> Answer:
    """Count the substrings whose surplus of a over b meets the criterion."""

    def answer(text: str) -> int:
        word = text.strip()
        parts = [word[i:j] for j in range(1, len(word) + 1) for i in range(j)]
        return sum(holds(part.count("a") - part.count("b")) for part in parts)

    return answer


def _subsequences(follows: Callable[[int, int], bool]) -> Answer:
    """Find the length of the longest subsequence in which each value may follow the one before."""

    def answer(text: str) -> int:
        _, *a = _integers(text)
        length: list[int] = []
        for i, value in enumerate(a):
            length.append(1 + max((length[j] for j in range(i) if follows(a[j], value)), default=0))
        return max(length)

    return answer


def _tree(collect: Collect) -> Answer:
    """Collect the depths of all nodes of a tree, that of the root being 0."""

    def answer(text: str) -> int:
        n, *parents = _integers(text)
        paths: dict[int, list[int]] = {0: [0]}
        for node in range(1, n):
            paths[node] = [*paths[parents[node]], node]
        return collect([len(path) - 1 for path in paths.values()])

    return answer


def _divisors(weight: Callable[[int], int]) -> Answer:
    """Sum the weights of the divisors of all values."""

    def answer(text: str) -> int:
        _, *a = _integers(text)
        return sum(weight(d) for value in a for d in range(1, value + 1) if value % d == 0)

    return answer


def _intervals(holds: Callable[[int, int], bool]) -> Answer:
    """Count the pairs of a start and an end that meet the criterion."""

    def answer(text: str) -> int:
        n, *rest = _integers(text)
        return sum(holds(start, end) for end in rest[n:] for start in rest[:n])

    return answer


def _stack(holds: Callable[[int, int], bool]) -> Answer:
    """Sum the distances from each value to the first later one that meets the criterion; 0 where there is none."""

    def answer(text: str) -> int:
        _, *a = _integers(text)
        positions = [next((j for j in range(i + 1, len(a)) if holds(a[j], a[i])), i) for i in range(len(a))]
        return sum(position - i for i, position in enumerate(positions))

    return answer


def _windows(collect: Collect) -> Answer:
    """Collect the maxima of all windows of n // 2 + 1 values."""

    def answer(text: str) -> int:
        n, *a = _integers(text)
        k = n // 2 + 1
        return collect([sorted(a[i : i + k])[-1] for i in range(n - k + 1)])

    return answer


def _odd_count(values: Sequence[int]) -> int:
    return len([value for value in values if value % 2 == 1])


def _upper_half(ordered: Sequence[int]) -> int:
    return sum(value for index, value in enumerate(ordered) if index >= len(ordered) // 2)


def _widest_gap(ordered: Sequence[int]) -> int:
    return max(ordered[index] - ordered[index - 1] for index in range(1, len(ordered)))


# Family -> operation -> answer, in the order in which the corpus numbers its families.
ANSWERS: Mapping[str, Mapping[str, Answer]] = {
    "pairs": {
        "equal": _pairs(lambda x, y: x == y),
        "sum_60": _pairs(lambda x, y: x + y == 60),
        "differ_by_7": _pairs(lambda x, y: abs(x - y) == 7),
    },
    "segments": {"largest": _segments(max), "total": _segments(sum), "odd": _segments(_odd_count)},
    "blocks": {"longest": _blocks(max), "total": _blocks(sum), "odd": _blocks(_odd_count)},
    "frequency": {"largest": _frequency(max), "total": _frequency(sum), "odd": _frequency(_odd_count)},
    "sorting": {
        "middle": _sorting(lambda ordered: ordered[len(ordered) // 2]),
        "upper_half": _sorting(_upper_half),
        "widest_gap": _sorting(_widest_gap),
    },
    "substrings": {
        "balanced": _substrings(lambda surplus: surplus == 0),
        "surplus_3": _substrings(lambda surplus: surplus == 3),
        "differ_by_2": _substrings(lambda surplus: surplus in (2, -2)),
    },
    "subsequences": {
        "increasing": _subsequences(lambda y, x: y < x),
        "non_decreasing": _subsequences(lambda y, x: y <= x),
        "decreasing": _subsequences(lambda y, x: y > x),
    },
    "tree": {"largest": _tree(max), "total": _tree(sum), "odd": _tree(_odd_count)},
    "divisors": {
        "number": _divisors(lambda d: 1),
        "sum": _divisors(lambda d: d),
        "odd": _divisors(lambda d: d & 1),
    },
    "intervals": {
        "after": _intervals(lambda start, end: start > end),
        "exactly_when": _intervals(lambda start, end: start == end),
        "before": _intervals(lambda start, end: start < end),
    },
    "stack": {
        "greater": _stack(lambda y, x: y > x),
        "smaller": _stack(lambda y, x: y < x),
        "at_least": _stack(lambda y, x: y >= x),
    },
    "windows": {
        "total": _windows(sum),
        "distinct": _windows(lambda maxima: len(set(maxima))),
        "odd": _windows(_odd_count),
    },
}
