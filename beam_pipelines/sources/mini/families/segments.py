"""Range sums: adding up each segment, block or tree tables, or prefix sums."""

from collections.abc import Callable

from beam_pipelines.sources.mini.family import TWO_LISTS, Family, Operation


def _answer(collect: Callable[[list[int]], int]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        n, *rest = [int(token) for token in text.split()]
        a, b = rest[:n], rest[n:]
        return collect([sum(a[k] for k in range(n) if b[i] <= k <= i) for i in range(n)])

    return answer


OPERATIONS = (
    Operation("largest", "the largest sum", {"collect": "max(t)"}, _answer(max)),
    Operation("total", "the total of all sums", {"collect": "sum(t)"}, _answer(sum)),
    Operation(
        "odd",
        "how many sums are odd",
        {"collect": "sum(x % 2 for x in t)"},
        _answer(lambda sums: len([value for value in sums if value % 2 == 1])),
    ),
)

SLOW = (
    """\
${read}t = []
for i in range(n):
    total = 0
    for j in range(b[i], i + 1):
        total += a[j]
    t.append(total)
ans = $collect
$show""",
    """\
${read}t = []
for i in range(n):
    total = 0
    j = b[i]
    while j <= i:
        total += a[j]
        j += 1
    t.append(total)
ans = $collect
$show""",
    """\
${read}t = []
for i in range(n):
    total = 0
    for x in a[b[i]:i + 1]:
        total += x
    t.append(total)
ans = $collect
$show""",
)

MEDIUM = (
    """\
${read}t = []
for i in range(n):
    t.append(sum(a[b[i]:i + 1]))
ans = $collect
$show""",
    """\
${read}t = []
for i in range(n):
    total = 0
    for j in range(b[i], i + 1, 32):
        total += sum(a[j:min(j + 32, i + 1)])
    t.append(total)
ans = $collect
$show""",
    """\
${read}p = [sum(a[j:j + 16]) for j in range(n)]
t = []
for i in range(n):
    total = 0
    j = b[i]
    while j + 15 <= i:
        total += p[j]
        j += 16
    t.append(total + sum(a[j:i + 1]))
ans = $collect
$show""",
    """\
${read}p = [sum(a[:j]) for j in range(0, n + 1, 100)]
def f(i):
    total = p[i // 100]
    for x in a[i // 100 * 100:i]:
        total += x
    return total
t = [f(i + 1) - f(b[i]) for i in range(n)]
ans = $collect
$show""",
)

FAST = (
    """\
${read}p = [0]
for x in a:
    p.append(p[-1] + x)
t = [p[i + 1] - p[b[i]] for i in range(n)]
ans = $collect
$show""",
    """\
from itertools import accumulate
${read}p = [0] + list(accumulate(a))
t = []
for i in range(n):
    t.append(p[i + 1] - p[b[i]])
ans = $collect
$show""",
    """\
${fast_read}p = [0]
t = []
for i in range(n):
    p.append(p[i] + a[i])
    t.append(p[i + 1] - p[b[i]])
ans = $collect
$show""",
)

WRONG = (
    """\
${read}t = []
for i in range(n):
    t.append(sum(a[b[i]:i]))
ans = $collect
$show""",
    """\
${read}p = [0]
for x in a:
    p.append(p[-1] + x)
t = [p[i + 1] - p[b[i] + 1] for i in range(n)]
ans = $collect
$show""",
    """\
${read}p = [0]
for x in a:
    p.append(p[-1] + x)
t = [p[i + 1] for i in range(n)]
ans = $collect
$show""",
)

GENERATOR = """\
import random


def text(a, b):
    return f"{len(a)}\\n{' '.join(map(str, a))}\\n{' '.join(map(str, b))}\\n"


class InputGenerator:
    size = 760

    def case(self, n):
        a = [random.randint(1, 99) for _ in range(n)]
        return text(a, [random.randint(0, i // 3) for i in range(n)])

    def generate_edge_cases(self):
        n = random.randint(self.size // 2, self.size * 8 // 10)
        shape = random.choice(["whole", "equal", "half"])
        if random.random() < 0.1:
            return self.case(1)
        a = [random.randint(1, 99) for _ in range(n)]
        if shape == "whole":
            return text(a, [random.randint(0, i // 4) for i in range(n)])
        if shape == "half":
            return text(a, [i // 2 for i in range(n)])
        return text([a[0]] * n, [random.randint(0, i // 3) for i in range(n)])

    def generate_small_cases(self):
        n = random.randint(1, 8)
        a = [random.randint(1, random.choice([3, 20])) for _ in range(n)]
        return text(a, [random.randint(0, i) for i in range(n)])

    def generate_sample_cases(self):
        return self.case(random.randint(self.size // 4, self.size * 7 // 10))

    def generate_large_cases(self):
        return self.case(self.size)
"""

FAMILY = Family(
    name="segments",
    statement="For each i from 0 to n - 1 add up a[b[i]], ..., a[i]. Find $operation. Print $form. "
    "Input: n, then lists a and b of n integers, b[i] <= i.",
    operations=OPERATIONS,
    reading=TWO_LISTS,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "1\n7\n0\n",
        "3\n1 2 3\n0 0 1\n",
        "4\n5 5 5 5\n0 1 2 3\n",
        "5\n9 1 8 2 7\n0 0 0 0 0\n",
        "6\n3 1 4 1 5 9\n0 1 1 3 2 4\n",
        "24\n3 5 2 6 5 1 6 2 5 6 5 8 6 3 8 8 3 1 5 1 6 7 1 9\n0 1 1 0 3 0 5 2 3 1 3 7 5 8 5 8 14 3 18 11 9 1 13 2\n",
    ),
    generator=GENERATOR,
)
