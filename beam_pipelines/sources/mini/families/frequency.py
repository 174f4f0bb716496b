"""Frequencies: counting each element by a pass, by value or after sorting, or with a counter."""

from collections.abc import Callable

from beam_pipelines.sources.mini import generators
from beam_pipelines.sources.mini.family import LIST, Family, Operation


def _answer(collect: Callable[[list[int]], int]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        a = text.split()[1:]
        return collect([a.count(token) for token in a])

    return answer


OPERATIONS = (
    Operation("largest", "the largest count", {"collect": "max(t)"}, _answer(max)),
    Operation("total", "the total of all counts", {"collect": "sum(t)"}, _answer(sum)),
    Operation(
        "odd",
        "how many counts are odd",
        {"collect": "sum(x % 2 for x in t)"},
        _answer(lambda counts: len([value for value in counts if value % 2 == 1])),
    ),
)

SLOW = (
    """\
${read}t = []
for x in a:
    k = 0
    for y in a:
        if x == y:
            k += 1
    t.append(k)
ans = $collect
$show""",
    """\
${read}t = [0] * n
for i in range(n):
    for j in range(n):
        if a[i] == a[j]:
            t[i] += 1
ans = $collect
$show""",
    """\
${read}t = []
for x in a:
    k = j = 0
    while j < n:
        if x == a[j]:
            k += 1
        j += 1
    t.append(k)
ans = $collect
$show""",
)

MEDIUM = (
    """\
${read}t = []
for y in range(1, 91):
    k = 0
    for x in a:
        if x == y:
            k += 1
    t += [k] * k
ans = $collect
$show""",
    """\
${read}b = list(range(1, 91))
seen = [0] * 90
for x in a:
    i = 0
    while b[i] != x:
        i += 1
    seen[i] += 1
t = [seen[x - 1] for x in a]
ans = $collect
$show""",
    """\
${read}seen = [[y, 0] for y in range(1, 91)]
for x in a:
    for p in seen:
        if p[0] == x:
            p[1] += 1
t = []
for y, k in seen:
    t += [k] * k
ans = $collect
$show""",
    """\
${read}seen = [0] * 91
for x in a:
    for y in range(1, 91):
        if x == y:
            seen[y] += 1
t = [seen[x] for x in a]
ans = $collect
$show""",
)

FAST = (
    """\
from collections import Counter
${read}t = []
for k in Counter(a).values():
    t += [k] * k
ans = $collect
$show""",
    """\
${fast_read}seen = [0] * 91
for x in a:
    seen[x] += 1
t = [seen[x] for x in a]
ans = $collect
$show""",
    """\
from collections import defaultdict
${read}seen = defaultdict(int)
for x in a:
    seen[x] += 1
t = [seen[x] for x in a]
ans = $collect
$show""",
)

WRONG = (
    """\
from collections import Counter
${read}seen = Counter(a[1:])
t = [seen[x] for x in a]
ans = $collect
$show""",
    """\
${read}seen = [0] * 91
t = []
for x in a:
    t.append(seen[x])
    seen[x] += 1
ans = $collect
$show""",
    """\
from collections import Counter
${read}t = list(Counter(a).values())
t.append(len(t))
ans = $collect
$show""",
)

FAMILY = Family(
    name="frequency",
    statement="For each i from 0 to n - 1 count how often a[i] occurs in a. Find $operation. Print $form. "
    "Input: n, then a list a of n integers from 1 to 90.",
    operations=OPERATIONS,
    reading=LIST,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "2\n8 8\n",
        "3\n1 2 3\n",
        "6\n5 5 9 5 9 1\n",
        "7\n40 40 40 40 40 40 40\n",
        "8\n4 4 4 7 7 2 2 2\n",
        "30\n4 1 4 3 1 3 4 3 1 1 1 3 6 1 1 1 5 1 2 4 3 6 5 1 1 1 6 4 2 1\n",
    ),
    generator=generators.of_list(540, high=90),
)
