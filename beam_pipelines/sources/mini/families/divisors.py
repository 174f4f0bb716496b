"""Divisors: trial division up to the number, up to its root, or one sieve for all numbers."""

from collections.abc import Callable

from beam_pipelines.sources.mini import generators
from beam_pipelines.sources.mini.family import LIST, Family, Operation


def _answer(weight: Callable[[int], int]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        a = [int(token) for token in text.split()[1:]]
        return sum(weight(d) for value in a for d in range(1, value + 1) if value % d == 0)

    return answer


OPERATIONS = (
    Operation("number", "the number of divisors", {"weight": "1"}, _answer(lambda d: 1)),
    Operation("sum", "the sum of divisors", {"weight": "d"}, _answer(lambda d: d)),
    Operation("odd", "the number of odd divisors", {"weight": "d % 2"}, _answer(lambda d: d & 1)),
)

SLOW = (
    """\
${read}ans = 0
for x in a:
    for d in range(1, x + 1):
        if x % d == 0:
            ans += $weight
$show""",
    """\
${read}ans = 0
for x in a:
    d = 1
    while d <= x:
        if x % d == 0:
            ans += $weight
        d += 1
$show""",
    """\
${read}ans = 0
for x in a:
    t = []
    for d in range(1, x + 1):
        if x % d == 0:
            t.append($weight)
    ans += sum(t)
$show""",
)

MEDIUM = (
    """\
${read}ans = 0
for x in a:
    d = 1
    while d * d <= x:
        if x % d == 0:
            ans += $weight
            if d * d < x:
                d = x // d
                ans += $weight
                d = x // d
        d += 1
$show""",
    """\
${read}ans = 0
for x in a:
    k = int(x ** 0.5)
    for d in range(1, k + 1):
        if x % d == 0:
            ans += $weight
    for i in range(1, k + 1):
        d = x // i
        if x % i == 0 and d > k:
            ans += $weight
$show""",
    """\
${read}ans = 0
for x in a:
    t = set()
    for i in range(1, int(x ** 0.5) + 1):
        if x % i == 0:
            t.add(i)
            t.add(x // i)
    for d in t:
        ans += $weight
$show""",
    """\
${read}ans = 0
for x in a:
    for i in range(1, 18):
        if i * i <= x and x % i == 0:
            for d in {i, x // i}:
                ans += $weight
$show""",
)

FAST = (
    """\
${read}t = [0] * 301
for d in range(1, 301):
    for x in range(d, 301, d):
        t[x] += $weight
ans = sum(t[x] for x in a)
$show""",
    """\
${fast_read}k = max(a) + 1
t = [0] * k
for d in range(1, k):
    for x in range(d, k, d):
        t[x] += $weight
ans = 0
for x in a:
    ans += t[x]
$show""",
    """\
${read}seen = [0] * 301
for x in a:
    seen[x] += 1
ans = 0
for d in range(1, 301):
    ans += sum(seen[d::d]) * ($weight)
$show""",
)

WRONG = (
    """\
${read}ans = 0
for x in a:
    for d in range(1, x):
        if x % d == 0:
            ans += $weight
$show""",
    """\
${read}ans = 0
for x in set(a):
    for d in range(1, x + 1):
        if x % d == 0:
            ans += $weight
$show""",
    """\
${read}ans = 0
for x in a:
    for d in range(2, x + 1):
        if x % d == 0:
            ans += $weight
$show""",
    """\
${read}ans = 0
for x in a:
    d = 1
    while d * d <= x:
        if x % d == 0:
            ans += $weight
            d = x // d
            ans += $weight
            d = x // d
        d += 1
$show""",
)

FAMILY = Family(
    name="divisors",
    statement="Add up $operation of x over all x in a. Print $form. "
    "Input: n, then a list a of n integers from 1 to 300.",
    operations=OPERATIONS,
    reading=LIST,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "2\n1 1\n",
        "3\n2 3 5\n",
        "4\n16 36 49 6\n",
        "5\n12 12 12 30 7\n",
        "6\n293 1 64 81 100 45\n",
        "8\n9 9 25 15 8 14 14 3\n",
    ),
    generator=generators.of_list(760, high=300, low=150),
)
