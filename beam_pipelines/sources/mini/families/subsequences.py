"""Longest monotone subsequence: the quadratic recurrence, a table by value, or the list of best ends."""

from collections.abc import Callable

from beam_pipelines.sources.mini import generators
from beam_pipelines.sources.mini.family import LIST, Family, Operation


def _answer(follows: Callable[[int, int], bool]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        a = [int(token) for token in text.split()[1:]]
        length: list[int] = []
        for i, value in enumerate(a):
            length.append(1 + max((length[j] for j in range(i) if follows(a[j], value)), default=0))
        return max(length)

    return answer


OPERATIONS = (
    Operation(
        "increasing",
        "strictly increasing",
        {"test": "y < x", "key": "x", "side": "left", "part": "[:x]"},
        _answer(lambda y, x: y < x),
    ),
    Operation(
        "non_decreasing",
        "non-decreasing",
        {"test": "y <= x", "key": "x", "side": "right", "part": "[:x + 1]"},
        _answer(lambda y, x: y <= x),
    ),
    Operation(
        "decreasing",
        "strictly decreasing",
        {"test": "y > x", "key": "-x", "side": "left", "part": "[x + 1:]"},
        _answer(lambda y, x: y > x),
    ),
)

SLOW = (
    """\
${read}t = []
for i in range(n):
    x = a[i]
    best = 0
    for j in range(i):
        y = a[j]
        if $test and t[j] > best:
            best = t[j]
    t.append(best + 1)
ans = max(t)
$show""",
    """\
${read}t = []
for x in a:
    best = 0
    for y, k in zip(a, t):
        if $test:
            best = max(best, k)
    t.append(best + 1)
ans = max(t)
$show""",
    """\
${read}t = [1] * n
for i in range(n):
    x = a[i]
    j = 0
    while j < i:
        y = a[j]
        if $test and t[j] >= t[i]:
            t[i] = t[j] + 1
        j += 1
ans = max(t)
$show""",
)

MEDIUM = (
    """\
${read}t = [0] * 61
for x in a:
    best = 0
    for y in range(1, 61):
        if $test and t[y] > best:
            best = t[y]
    t[x] = best + 1
ans = max(t)
$show""",
    """\
${read}t = [0] * 61
for x in a:
    q = [0]
    for y in range(1, 61):
        if $test:
            q.append(t[y])
    t[x] = max(q) + 1
ans = max(t)
$show""",
    """\
${read}t = {}
for x in a:
    best = 0
    for y in t:
        if $test and t[y] > best:
            best = t[y]
    t[x] = best + 1
ans = max(t.values())
$show""",
    """\
${read}t = [0] * 61
for x in a:
    best = 0
    y = 1
    while y <= 60:
        if $test and t[y] > best:
            best = t[y]
        y += 1
    t[x] = best + 1
ans = max(t)
$show""",
)

FAST = (
    """\
from bisect import bisect_$side
${read}t = []
for x in a:
    i = bisect_$side(t, $key)
    if i == len(t):
        t.append($key)
    else:
        t[i] = $key
ans = len(t)
$show""",
    """\
from bisect import bisect_$side
${fast_read}t = []
for x in a:
    i = bisect_$side(t, $key)
    t[i:i + 1] = [$key]
ans = len(t)
$show""",
    """\
from bisect import bisect_$side
${read}t = [100] * n
for x in a:
    i = bisect_$side(t, $key)
    t[i] = $key
ans = n - t.count(100)
$show""",
)

WRONG = (
    """\
${read}t = [0] * 61
for x in a:
    t[x] = max(t$part, default=0)
ans = max(t)
$show""",
    """\
${read}best = ans = 1
for y, x in zip(a, a[1:]):
    if $test:
        best += 1
    else:
        best = 1
    ans = max(ans, best)
$show""",
    """\
${read}ans = 1
y = a[0]
for x in a[1:]:
    if $test:
        ans += 1
        y = x
$show""",
)

FAMILY = Family(
    name="subsequences",
    statement="Find the length of the longest $operation subsequence of a. Print $form. "
    "Input: n, then a list a of n integers from 1 to 60.",
    operations=OPERATIONS,
    reading=LIST,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "2\n5 5\n",
        "5\n3 1 2 5 4\n",
        "6\n9 8 8 7 7 1\n",
        "7\n2 2 3 1 4 4 5\n",
        "9\n10 9 30 8 40 7 11 6 12\n",
        "27\n50 1 3 5 7 7 9 11 13 15 48 46 17 19 21 23 44 42 25 40 38 36 34 32 30 28 26\n",
    ),
    generator=generators.of_list(500, high=60),
)
