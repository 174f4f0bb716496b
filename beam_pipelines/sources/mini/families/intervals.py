"""Intervals: comparing all pairs of ends and starts, starts by value, or sorted starts."""

from collections.abc import Callable

from beam_pipelines.sources.mini.family import TWO_LISTS, Family, Operation


def _answer(holds: Callable[[int, int], bool]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        n, *rest = [int(token) for token in text.split()]
        return sum(holds(start, end) for end in rest[n:] for start in rest[:n])

    return answer


OPERATIONS = (
    Operation(
        "after",
        "after",
        {"test": "y > x", "found": "n - bisect_right(a, x)", "part": "[x + 1:]"},
        _answer(lambda start, end: start > end),
    ),
    Operation(
        "exactly_when",
        "exactly when",
        {"test": "y == x", "found": "bisect_right(a, x) - bisect_left(a, x)", "part": "[x:x + 1]"},
        _answer(lambda start, end: start == end),
    ),
    Operation(
        "before",
        "before",
        {"test": "y < x", "found": "bisect_left(a, x)", "part": "[:x]"},
        _answer(lambda start, end: start < end),
    ),
)

SLOW = (
    """\
${read}ans = 0
for i in range(n):
    x = b[i]
    for j in range(n):
        y = a[j]
        if $test:
            ans += 1
$show""",
    """\
${read}ans = 0
for x in b:
    for y in a:
        if $test:
            ans += 1
$show""",
    """\
${read}ans = 0
for x in b:
    j = 0
    while j < n:
        y = a[j]
        if $test:
            ans += 1
        j += 1
$show""",
)

MEDIUM = (
    """\
${read}seen = [0] * 61
for y in a:
    seen[y] += 1
ans = 0
for x in b:
    for y in range(1, 61):
        if $test:
            ans += seen[y]
$show""",
    """\
${read}seen = [0] * 61
for y in a:
    seen[y] += 1
ans = 0
for x in b:
    for y, k in enumerate(seen):
        if $test:
            ans += k
$show""",
    """\
${read}ans = 0
for x in range(1, 61):
    k = b.count(x)
    for y in a:
        if $test:
            ans += k
$show""",
    """\
${read}seen = [0] * 61
for y in a:
    seen[y] += 1
ans = 0
for x in b:
    y = 1
    while y <= 60:
        if $test:
            ans += seen[y]
        y += 1
$show""",
)

FAST = (
    """\
from bisect import bisect_left, bisect_right
${read}a.sort()
ans = 0
for x in b:
    ans += $found
$show""",
    """\
${fast_read}seen = [0] * 61
for y in a:
    seen[y] += 1
ans = 0
for x in b:
    ans += sum(seen$part)
$show""",
    """\
${read}seen = [0] * 61
for y in a:
    seen[y] += 1
t = [sum(seen$part) for x in range(61)]
ans = sum(t[x] for x in b)
$show""",
)

WRONG = (
    """\
${read}ans = 0
for x in b:
    for y in set(a):
        if $test:
            ans += 1
$show""",
    """\
${read}ans = 0
for x in b:
    x += 1
    for y in a:
        if $test:
            ans += 1
$show""",
    """\
${read}ans = 0
for x in b:
    for y in b:
        if $test:
            ans += 1
$show""",
    """\
${read}ans = 0
for i in range(n):
    x = b[i]
    for y in a[:i]:
        if $test:
            ans += 1
$show""",
)

GENERATOR = """\
import random


def text(pairs):
    a, b = zip(*pairs)
    return f"{len(a)}\\n{' '.join(map(str, a))}\\n{' '.join(map(str, b))}\\n"


class InputGenerator:
    size = 480

    def pairs(self, n, high=60, longest=59):
        starts = [random.randint(1, high - 1) for _ in range(n)]
        return [(x, random.randint(x + 1, min(high, x + longest))) for x in starts]

    def generate_edge_cases(self):
        n = random.randint(self.size // 2, self.size)
        shape = random.choice(["equal", "short", "sorted", "nested"])
        if random.random() < 0.1:
            return text(self.pairs(1))
        if shape == "equal":
            return text(self.pairs(1) * n)
        if shape == "short":
            return text(self.pairs(n, longest=1))
        if shape == "nested":
            return text([(1 + i % 29, 60 - i % 29) for i in range(n)])
        return text(sorted(self.pairs(n)))

    def generate_small_cases(self):
        return text(self.pairs(random.randint(1, 7), random.choice([4, 12]), 5))

    def generate_sample_cases(self):
        return text(self.pairs(random.randint(self.size // 4, self.size * 7 // 10)))

    def generate_large_cases(self):
        return text(self.pairs(self.size))
"""

FAMILY = Family(
    name="intervals",
    statement="Interval i lasts from a[i] to b[i]. Count the pairs (i, j) where interval j starts $operation "
    "interval i ends. Print $form. Input: n, then lists a and b, 1 <= a[i] < b[i] <= 60.",
    operations=OPERATIONS,
    reading=TWO_LISTS,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "1\n3\n8\n",
        "3\n1 2 4\n2 4 5\n",
        "4\n1 1 2 2\n2 2 3 3\n",
        "5\n1 5 10 20 30\n5 9 12 30 40\n",
        "6\n9 8 7 6 5 4\n10 11 12 13 14 15\n",
        "12\n5 3 6 3 6 6 6 5 1 4 2 6\n6 5 7 6 10 8 10 6 3 5 4 10\n",
    ),
    generator=GENERATOR,
)
