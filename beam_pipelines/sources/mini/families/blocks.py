"""Two pointers: extending a block from each start, searching its end, or moving both ends once."""

import itertools
from collections.abc import Callable

from beam_pipelines.sources.mini.family import LIST, Family, Operation


def _answer(collect: Callable[[list[int]], int]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        a = [int(token) for token in text.split()[1:]]
        ends = [list(itertools.accumulate(a[i:])) for i in range(len(a))]
        return collect([sum(total <= 6000 for total in totals) for totals in ends])

    return answer


OPERATIONS = (
    Operation("longest", "the largest length", {"collect": "max(t)"}, _answer(max)),
    Operation("total", "the total of all lengths", {"collect": "sum(t)"}, _answer(sum)),
    Operation(
        "odd",
        "how many lengths are odd",
        {"collect": "sum(x % 2 for x in t)"},
        _answer(lambda lengths: len([value for value in lengths if value % 2 == 1])),
    ),
)

SLOW = (
    """\
${read}t = []
for i in range(n):
    total = 0
    j = i
    while j < n and total + a[j] <= 6000:
        total += a[j]
        j += 1
    t.append(j - i)
ans = $collect
$show""",
    """\
${read}t = []
for i in range(n):
    total = k = 0
    for j in range(i, n):
        total += a[j]
        if total > 6000:
            break
        k += 1
    t.append(k)
ans = $collect
$show""",
    """\
${read}t = []
for i in range(n):
    total = k = 0
    for x in a[i:]:
        total += x
        if total > 6000:
            break
        k += 1
    t.append(k)
ans = $collect
$show""",
)

MEDIUM = (
    """\
${read}p = [sum(a[i:i + 32]) for i in range(n)]
t = []
for i in range(n):
    total = 0
    j = i
    for q, k in ((p, 32), (a, 1)):
        while j < n and total + q[j] <= 6000:
            total += q[j]
            j += k
    t.append(min(j, n) - i)
ans = $collect
$show""",
    """\
${read}p = [0]
for x in a:
    p.append(p[-1] + x)
t = []
for i in range(n):
    j = i
    k = 512
    while k > 0:
        if j + k <= n and p[j + k] - p[i] <= 6000:
            j += k
        k //= 2
    t.append(j - i)
ans = $collect
$show""",
    """\
${read}p = [0]
for x in a:
    p.append(p[-1] + x)
t = []
for i in range(n):
    j = i
    for k in (256, 16, 1):
        while j + k <= n and p[j + k] - p[i] <= 6000:
            j += k
    t.append(j - i)
ans = $collect
$show""",
    """\
${read}t = []
j = 0
for i in range(n):
    while j < n and sum(a[i:j + 1]) <= 6000:
        j += 1
    t.append(j - i)
ans = $collect
$show""",
)

FAST = (
    """\
${read}t = []
total = j = 0
for i in range(n):
    while j < n and total + a[j] <= 6000:
        total += a[j]
        j += 1
    t.append(j - i)
    total -= a[i]
ans = $collect
$show""",
    """\
from bisect import bisect_right
from itertools import accumulate
${read}p = [0] + list(accumulate(a))
t = []
for i in range(n):
    t.append(bisect_right(p, p[i] + 6000) - 1 - i)
ans = $collect
$show""",
    """\
${fast_read}t = []
total = i = 0
for j in range(n):
    total += a[j]
    while total > 6000:
        total -= a[i]
        t.append(j - i)
        i += 1
t += range(n - i, 0, -1)
ans = $collect
$show""",
)

WRONG = (
    """\
${read}t = []
total = j = 0
for i in range(n):
    while j < n and total <= 6000:
        total += a[j]
        j += 1
    t.append(j - i)
    total -= a[i]
ans = $collect
$show""",
    """\
${read}t = []
total = i = 0
for j in range(n):
    total += a[j]
    while total > 6000:
        total -= a[i]
        t.append(j - i + 1)
        i += 1
t += range(n - i, 0, -1)
ans = $collect
$show""",
    """\
${read}t = []
total = k = 0
for x in a:
    if total + x > 6000:
        t.append(k)
        total = k = 0
    total += x
    k += 1
t.append(k)
ans = $collect + 1
$show""",
)

GENERATOR = """\
import random


def text(a):
    return f"{len(a)}\\n{' '.join(map(str, a))}\\n"


class InputGenerator:
    size = 680

    def numbers(self, n):
        return [random.randint(1, 49) for _ in range(n)]

    def generate_edge_cases(self):
        n = random.randint(self.size // 2, self.size * 8 // 10)
        a = self.numbers(n)
        shape = random.choice(["equal", "sorted", "reversed", "exact"])
        if random.random() < 0.1:
            a = [random.choice([1, 6000])]
        elif shape == "equal":
            a = [random.randint(20, 30)] * n
        elif shape == "sorted":
            a.sort()
        elif shape == "reversed":
            a.sort(reverse=True)
        else:
            a = [20, 25] * (n // 2)
        return text(a)

    def generate_small_cases(self):
        return text([random.randint(1, 40) * 100 for _ in range(random.randint(2, 9))])

    def generate_sample_cases(self):
        return text(self.numbers(random.randint(self.size // 4, self.size * 7 // 10)))

    def generate_large_cases(self):
        return text(self.numbers(self.size))
"""

FAMILY = Family(
    name="blocks",
    statement="For each start i take the length of the longest block from a[i] with sum at most 6000. Find $operation. "
    "Print $form. Input: n, then a list a of n integers up to 6000.",
    operations=OPERATIONS,
    reading=LIST,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "1\n6000\n",
        "2\n6000 1\n",
        "5\n2000 2000 2000 2000 1\n",
        "6\n1 2 3 4 5 6\n",
        "7\n5999 1 1 5998 2 2000 4000\n",
        "30\n700 300 900 300 900 900 900 700 100 400 200 900 100 200 100 300 400 "
        "200 400 700 100 700 200 100 900 200 400 300 200 400\n",
    ),
    generator=GENERATOR,
)
