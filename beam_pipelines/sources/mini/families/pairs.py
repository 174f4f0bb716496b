"""Pair counting: a double loop, a table of values, or a running counter of partners."""

from collections.abc import Callable

from beam_pipelines.sources.mini import generators
from beam_pipelines.sources.mini.family import LIST, Family, Operation


def _answer(holds: Callable[[int, int], bool]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        a = [int(token) for token in text.split()[1:]]
        return sum(holds(a[i], a[j]) for j in range(len(a)) for i in range(j))

    return answer


OPERATIONS = (
    Operation(
        "equal",
        "a[i] equal to a[j]",
        {"test": "x == y", "partners": "seen[x]"},
        _answer(lambda x, y: x == y),
    ),
    Operation(
        "sum_60",
        "a[i] + a[j] equal to 60",
        {"test": "x + y == 60", "partners": "seen[60 - x]"},
        _answer(lambda x, y: x + y == 60),
    ),
    Operation(
        "differ_by_7",
        "a[i] and a[j] differing by 7",
        {"test": "abs(x - y) == 7", "partners": "seen[x - 7] + seen[x + 7]"},
        _answer(lambda x, y: abs(x - y) == 7),
    ),
)

SLOW = (
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    for j in range(i):
        y = a[j]
        if $test:
            ans += 1
$show""",
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    for y in a[:i]:
        if $test:
            ans += 1
$show""",
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    j = 0
    while j < i:
        y = a[j]
        if $test:
            ans += 1
        j += 1
$show""",
)

MEDIUM = (
    """\
${read}seen = [0] * 61
ans = 0
for x in a:
    for y in range(1, 61):
        if $test:
            ans += seen[y]
    seen[x] += 1
$show""",
    """\
${read}seen = {}
ans = 0
for x in a:
    for y in seen:
        if $test:
            ans += seen[y]
    seen[x] = seen.get(x, 0) + 1
$show""",
    """\
${read}ans = 0
for y in range(1, 61):
    total = 0
    for x in a:
        if $test:
            ans += total
        if x == y:
            total += 1
$show""",
    """\
${read}seen = [0] * 61
ans = 0
for x in a:
    y = 1
    while y <= 60:
        if $test:
            ans += seen[y]
        y += 1
    seen[x] += 1
$show""",
)

FAST = (
    """\
from collections import Counter
${read}seen = Counter()
ans = 0
for x in a:
    ans += $partners
    seen[x] += 1
$show""",
    """\
${fast_read}seen = [0] * 200
ans = 0
for x in a:
    ans += $partners
    seen[x] += 1
$show""",
    """\
from collections import defaultdict
${read}seen = defaultdict(int)
ans = 0
for x in a:
    ans += $partners
    seen[x] += 1
$show""",
)

WRONG = (
    """\
${read}ans = 0
for i in range(n - 1):
    x = a[i]
    for y in a[:i]:
        if $test:
            ans += 1
$show""",
    """\
${read}ans = 0
for x, y in zip(a, a[1:]):
    if $test:
        ans += 1
$show""",
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    for y in set(a[:i]):
        if $test:
            ans += 1
$show""",
)

FAMILY = Family(
    name="pairs",
    statement="Count the pairs i < j with $operation. Print $form. Input: n, then a list a of n integers from 1 to 60.",
    operations=OPERATIONS,
    reading=LIST,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "5\n30 30 53 23 30\n",
        "2\n1 2\n",
        "6\n7 14 21 46 39 14\n",
        "4\n60 60 60 60\n",
        "8\n10 50 3 57 10 17 50 24\n",
        "10\n30 23 30 37 30 30 23 30 37 30\n",
    ),
    generator=generators.of_list(600, high=60),
)
