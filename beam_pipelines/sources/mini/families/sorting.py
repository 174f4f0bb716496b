"""Order statistics: elementary sorts, divide and conquer in Python, or the built-in sort."""

from collections.abc import Callable

from beam_pipelines.sources.mini import generators
from beam_pipelines.sources.mini.family import LIST, Family, Operation


def _answer(collect: Callable[[list[int]], int]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        left = [int(token) for token in text.split()[1:]]
        ordered = []
        while left:
            ordered.append(left.pop(left.index(min(left))))
        return collect(ordered)

    return answer


OPERATIONS = (
    Operation("middle", "the value at index n // 2", {"collect": "b[n // 2]"}, _answer(lambda b: b[len(b) // 2])),
    Operation(
        "upper_half",
        "the sum from index n // 2 to the end",
        {"collect": "sum(b[n // 2:])"},
        _answer(lambda b: sum(value for index, value in enumerate(b) if index >= len(b) // 2)),
    ),
    Operation(
        "widest_gap",
        "the largest difference of neighbours",
        {"collect": "max(y - x for x, y in zip(b, b[1:]))"},
        _answer(lambda b: max(b[index] - b[index - 1] for index in range(1, len(b)))),
    ),
)

SLOW = (
    """\
${read}b = a
for i in range(n):
    for j in range(n - 1 - i):
        if b[j] > b[j + 1]:
            b[j], b[j + 1] = b[j + 1], b[j]
ans = $collect
$show""",
    """\
${read}b = a
for i in range(n):
    k = i
    for j in range(i, n):
        if b[j] < b[k]:
            k = j
    b[i], b[k] = b[k], b[i]
ans = $collect
$show""",
    """\
${read}b = [0] * n
for i in range(n):
    x = a[i]
    k = 0
    for y in a:
        if y < x:
            k += 1
    while b[k]:
        k += 1
    b[k] = x
ans = $collect
$show""",
)

MEDIUM = (
    """\
from heapq import merge
${read}t = [[x] for x in a]
while len(t) > 1:
    t = [list(merge(*t[i:i + 2])) for i in range(0, len(t), 2)]
b = t[0]
ans = $collect
$show""",
    """\
${read}b = []
for x in a:
    l, r = 0, len(b)
    while l < r:
        m = (l + r) // 2
        if b[m] < x:
            l = m + 1
        else:
            r = m
    b = b[:l] + [x] + b[l:]
ans = $collect
$show""",
    """\
${read}b = a
k = n // 2
while k > 0:
    for i in range(k, n):
        x = b[i]
        while i >= k and b[i - k] > x:
            b[i] = b[i - k]
            i -= k
        b[i] = x
    k //= 2
ans = $collect
$show""",
    """\
${read}b = a
for k in range(14):
    p, q = [], []
    for x in b:
        if x // 2 ** k % 2:
            q.append(x)
        else:
            p.append(x)
    b = p + q
ans = $collect
$show""",
)

FAST = (
    """\
${read}b = sorted(a)
ans = $collect
$show""",
    """\
${fast_read}a.sort()
b = a
ans = $collect
$show""",
    """\
${read}b = sorted(a, reverse=True)[::-1]
ans = $collect
$show""",
)

WRONG = (
    """\
${read}b = a
ans = $collect
$show""",
    """\
${read}b = sorted(set(a))
ans = $collect
$show""",
    """\
${read}b = sorted(a[1:] + [10000])
ans = $collect
$show""",
    """\
${read}b = sorted(map(str, a))
b = list(map(int, b))
ans = $collect
$show""",
)

FAMILY = Family(
    name="sorting",
    statement="Sort the list a in increasing order, indices from 0. Find $operation. Print $form. "
    "Input: n, then a list a of n integers.",
    operations=OPERATIONS,
    reading=LIST,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "2\n9 4\n",
        "3\n7 7 7\n",
        "5\n100 20 3 41 5\n",
        "6\n1 2 3 5 8 13\n",
        "7\n64 9 256 16 36 4 25\n",
        "8\n12 12 5 9 120 7 7 31\n",
    ),
    generator=generators.of_list(540, high=9999),
)
