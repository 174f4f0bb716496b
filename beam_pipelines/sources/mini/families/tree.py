"""Depths in a rooted tree: climbing from every node, jumps and queues, or one pass over the parents."""

from collections.abc import Callable

from beam_pipelines.sources.mini.family import LIST, Family, Operation


def _answer(collect: Callable[[list[int]], int]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        n, *parents = [int(token) for token in text.split()]
        paths: dict[int, list[int]] = {0: [0]}
        for node in range(1, n):
            paths[node] = [*paths[parents[node]], node]
        return collect([len(path) - 1 for path in paths.values()])

    return answer


OPERATIONS = (
    Operation("largest", "the largest depth", {"collect": "max(t)"}, _answer(max)),
    Operation("total", "the total of all depths", {"collect": "sum(t)"}, _answer(sum)),
    Operation(
        "odd",
        "how many depths are odd",
        {"collect": "sum(x % 2 for x in t)"},
        _answer(lambda depths: len([value for value in depths if value % 2 == 1])),
    ),
)

SLOW = (
    """\
${read}t = []
for i in range(n):
    k = 0
    j = i
    while j > 0:
        j = a[j]
        k += 1
    t.append(k)
ans = $collect
$show""",
    """\
${read}t = [0] * n
for i in range(n):
    j = i
    while j > 0:
        t[i] += 1
        j = a[j]
ans = $collect
$show""",
    """\
${read}t = []
for i in range(n):
    q = [i]
    while q[-1] > 0:
        q.append(a[q[-1]])
    t.append(len(q) - 1)
ans = $collect
$show""",
)

MEDIUM = (
    """\
${read}t = [min(i, 1) for i in range(n)]
p = a
for k in range(10):
    i = n - 1
    while i > 0:
        t[i] += t[p[i]]
        p[i] = p[p[i]]
        i -= 1
ans = $collect
$show""",
    """\
${read}t = []
for i in range(n):
    k = 0
    j = i
    while j > 0 and j > i - 60:
        j = a[j]
        k += 1
    if j < i:
        k += t[j]
    t.append(k)
ans = $collect
$show""",
    """\
${read}seen = {0: 0}
t = []
for i in range(n):
    k = 0
    j = i
    while j not in seen:
        j = a[j]
        k += 1
    t.append(k + seen[j])
    if i % 64 == 0:
        seen[i] = t[i]
ans = $collect
$show""",
    """\
${read}p = a
for k in range(4):
    p = [p[j] for j in p]
t = []
for i in range(n):
    k = 0
    while p[i] > 0:
        i = p[i]
        k += 16
    while i > 0:
        i = a[i]
        k += 1
    t.append(k)
ans = $collect
$show""",
)

FAST = (
    """\
${read}t = [0] * n
for i in range(1, n):
    t[i] = t[a[i]] + 1
ans = $collect
$show""",
    """\
${read}t = [0]
for x in a[1:]:
    t.append(t[x] + 1)
ans = $collect
$show""",
    """\
${fast_read}t = [0]
i = 1
while i < n:
    t.append(t[a[i]] + 1)
    i += 1
ans = $collect
$show""",
)

WRONG = (
    """\
${read}t = [1] * n
for i in range(1, n):
    t[i] = t[a[i]] + 1
ans = $collect
$show""",
    """\
${read}t = [0] * n
for i in range(1, n):
    t[i] = t[i - 1] + 1
ans = $collect
$show""",
    """\
${read}t = [0] * n
for i in range(1, n - 1):
    t[i] = t[a[i]] + 1
ans = $collect
$show""",
)

GENERATOR = """\
import random


def text(a):
    return f"{len(a)}\\n{' '.join(map(str, a))}\\n"


class InputGenerator:
    size = 720

    def parents(self, n, step):
        return [0] + [max(0, i - random.randint(1, step)) for i in range(1, n)]

    def generate_edge_cases(self):
        n = random.randint(self.size // 2, self.size * 8 // 10)
        shape = random.choice(["path", "broom", "spine", "legs"])
        if random.random() < 0.1:
            return text([0])
        if shape == "path":
            return text([0] + list(range(n - 1)))
        if shape == "broom":
            return text([0] + [min(i, n * 4 // 5) for i in range(n - 1)])
        if shape == "spine":
            return text([0] + [i - i % 2 for i in range(n - 1)])
        return text([0, 0] + list(range(n - 2)))

    def generate_small_cases(self):
        return text(self.parents(random.randint(2, 9), random.choice([2, 9])))

    def generate_sample_cases(self):
        return text(self.parents(random.randint(self.size // 4, self.size * 7 // 10), 2))

    def generate_large_cases(self):
        return text(self.parents(self.size, 2))
"""

FAMILY = Family(
    name="tree",
    statement="Node i > 0 of a tree has the parent a[i] < i, node 0 is the root at depth 0. Find $operation. "
    "Print $form. Input: n, then a list a of n integers, a[0] = 0.",
    operations=OPERATIONS,
    reading=LIST,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "2\n0 0\n",
        "3\n0 0 1\n",
        "4\n0 0 0 0\n",
        "6\n0 0 1 1 2 4\n",
        "7\n0 0 1 2 3 4 5\n",
        "26\n0 0 1 2 3 4 5 6 6 7 9 10 11 12 12 13 15 15 16 18 19 19 21 21 22 24\n",
    ),
    generator=GENERATOR,
)
