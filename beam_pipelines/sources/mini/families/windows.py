"""Sliding windows: scanning each window, table lookups, or maxima carried along."""

from collections.abc import Callable

from beam_pipelines.sources.mini import generators
from beam_pipelines.sources.mini.family import LIST, Family, Operation


def _answer(collect: Callable[[list[int]], int]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        n, *a = [int(token) for token in text.split()]
        k = n // 2 + 1
        return collect([sorted(a[i : i + k])[-1] for i in range(n - k + 1)])

    return answer


OPERATIONS = (
    Operation("total", "the total of the maxima", {"collect": "sum(t)"}, _answer(sum)),
    Operation("distinct", "how many distinct maxima occur", {"collect": "len(set(t))"}, _answer(lambda t: len(set(t)))),
    Operation(
        "odd",
        "how many maxima are odd",
        {"collect": "sum(x % 2 for x in t)"},
        _answer(lambda maxima: len([value for value in maxima if value % 2 == 1])),
    ),
)

SLOW = (
    """\
${read}k = n // 2 + 1
t = []
for i in range(n - k + 1):
    best = 0
    for j in range(i, i + k):
        if a[j] > best:
            best = a[j]
    t.append(best)
ans = $collect
$show""",
    """\
${read}k = n // 2 + 1
t = []
for i in range(n - k + 1):
    best = 0
    for x in a[i:i + k]:
        if x > best:
            best = x
    t.append(best)
ans = $collect
$show""",
    """\
${read}k = n // 2 + 1
t = []
for i in range(n - k + 1):
    best = 0
    j = i
    while j < i + k:
        if a[j] > best:
            best = a[j]
        j += 1
    t.append(best)
ans = $collect
$show""",
)

MEDIUM = (
    """\
${read}k = n // 2 + 1
t = []
for i in range(n - k + 1):
    t.append(max(a[i:i + k]))
ans = $collect
$show""",
    """\
${read}k = n // 2 + 1
p = a[:]
w = 1
while 2 * w <= k:
    i = 0
    while i + 2 * w <= n:
        p[i] = max(p[i], p[i + w])
        i += 1
    w *= 2
t = []
for i in range(n - k + 1):
    t.append(max(p[i], p[i + k - w]))
ans = $collect
$show""",
    """\
${read}k = n // 2 + 1
p = [max(a[i:i + 32]) for i in range(n)]
t = []
for i in range(n - k + 1):
    best = 0
    j = i
    while j + 32 <= i + k:
        best = max(best, p[j])
        j += 32
    t.append(max([best] + a[j:i + k]))
ans = $collect
$show""",
    """\
${read}k = n // 2 + 1
p = [max(a[i:i + 16]) for i in range(n)]
t = []
for i in range(n - k + 1):
    best = max(a[i:i + k][-16:])
    for j in range(i, i + k - 15, 16):
        if p[j] > best:
            best = p[j]
    t.append(best)
ans = $collect
$show""",
)

FAST = (
    """\
from collections import deque
${read}k = n // 2 + 1
q = deque()
t = []
for i, x in enumerate(a):
    while q and a[q[-1]] <= x:
        q.pop()
    q.append(i)
    if q[0] <= i - k:
        q.popleft()
    t.append(a[q[0]])
t = t[k - 1:]
ans = $collect
$show""",
    """\
from itertools import accumulate
${fast_read}k = n // 2 + 1
p = list(accumulate(a[:k][::-1], max))[::-1]
q = list(accumulate([0] + a[k:], max))
t = [max(x, y) for x, y in zip(p, q)]
ans = $collect
$show""",
    """\
${read}k = n // 2 + 1
p = a[:k]
for i in range(k - 2, -1, -1):
    p[i] = max(p[i], p[i + 1])
q = a[k - 1:]
for i in range(1, n - k + 1):
    q[i] = max(q[i], q[i - 1])
t = [max(x, y) for x, y in zip(p, q)]
ans = $collect
$show""",
)

WRONG = (
    """\
${read}k = n // 2 + 1
t = []
for i in range(n - k):
    t.append(max(a[i:i + k]))
ans = $collect
$show""",
    """\
${read}k = n // 2
t = []
for i in range(n - k + 1):
    t.append(max(a[i:i + k]))
ans = $collect
$show""",
    """\
${read}k = n // 2 + 1
best = 0
t = []
for i in range(n):
    best = max(best, a[i])
    if i >= k - 1:
        t.append(best)
ans = $collect
$show""",
    """\
${read}k = n // 2 + 1
t = []
for i in range(n - k + 1):
    t.append(min(a[i:i + k]))
ans = $collect
$show""",
)

FAMILY = Family(
    name="windows",
    statement="Take the maximum of each window of n // 2 + 1 consecutive numbers. Find $operation. Print $form. "
    "Input: n, then a list a of n integers.",
    operations=OPERATIONS,
    reading=LIST,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "2\n4 9\n",
        "3\n5 5 5\n",
        "6\n9 8 7 6 5 4\n",
        "7\n1 2 3 4 5 6 7\n",
        "8\n30 1 17 2 9 25 4 8\n",
        "40\n95 93 93 90 89 88 81 79 77 77 70 69 66 62 59 56 52 47 45 44 44 41 40 "
        "40 40 36 33 31 27 23 21 20 19 12 12 11 11 7 5 5\n",
    ),
    generator=generators.of_list(900, high=999),
)
