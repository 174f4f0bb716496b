"""Next greater element: scanning the rest of the list, positions by value, or a monotone stack."""

from collections.abc import Callable

from beam_pipelines.sources.mini import generators
from beam_pipelines.sources.mini.family import LIST, Family, Operation


def _answer(holds: Callable[[int, int], bool]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        a = [int(token) for token in text.split()[1:]]
        positions = [next((j for j in range(i + 1, len(a)) if holds(a[j], a[i])), i) for i in range(len(a))]
        return sum(position - i for i, position in enumerate(positions))

    return answer


OPERATIONS = (
    Operation(
        "greater",
        "greater than",
        {"test": "y > x"},
        _answer(lambda y, x: y > x),
    ),
    Operation(
        "smaller",
        "smaller than",
        {"test": "y < x"},
        _answer(lambda y, x: y < x),
    ),
    Operation(
        "at_least",
        "at least",
        {"test": "y >= x"},
        _answer(lambda y, x: y >= x),
    ),
)

SLOW = (
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    best = i
    for j in range(n - 1, i, -1):
        y = a[j]
        if $test:
            best = j
    ans += best - i
$show""",
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    k = best = 0
    for y in a[i + 1:]:
        k += 1
        if $test and best == 0:
            best = k
    ans += best
$show""",
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    best = i
    j = n - 1
    while j > i:
        y = a[j]
        if $test:
            best = j
        j -= 1
    ans += best - i
$show""",
)

MEDIUM = (
    """\
${read}seen = [n] * 51
ans = 0
for i in range(n - 1, -1, -1):
    x = a[i]
    best = n
    for y in range(1, 51):
        if $test and seen[y] < best:
            best = seen[y]
    if best < n:
        ans += best - i
    seen[x] = i
$show""",
    """\
${read}seen = [n] * 51
ans = 0
for i in range(n - 1, -1, -1):
    x = a[i]
    t = [n]
    for y in range(1, 51):
        if $test:
            t.append(seen[y])
    if min(t) < n:
        ans += min(t) - i
    seen[x] = i
$show""",
    """\
${read}seen = {}
ans = 0
for i in range(n - 1, -1, -1):
    x = a[i]
    best = n
    for y in seen:
        if $test and seen[y] < best:
            best = seen[y]
    if best < n:
        ans += best - i
    seen[x] = i
$show""",
    """\
${read}ans = 0
for x in range(1, 51):
    best = n
    for i in range(n - 1, -1, -1):
        y = a[i]
        if x == y and best < n:
            ans += best - i
        if $test:
            best = i
$show""",
)

FAST = (
    """\
${read}q = []
ans = 0
for i in range(n):
    y = a[i]
    while q:
        x = a[q[-1]]
        if not $test:
            break
        ans += i - q.pop()
    q.append(i)
$show""",
    """\
${read}q = []
ans = 0
for i in range(n - 1, -1, -1):
    x = a[i]
    while q:
        y = a[q[-1]]
        if $test:
            break
        q.pop()
    if q:
        ans += q[-1] - i
    q.append(i)
$show""",
    """\
${fast_read}q = []
ans = 0
for i, y in enumerate(a):
    while q:
        j, x = q[-1]
        if not ($test):
            break
        q.pop()
        ans += i - j
    q.append((i, y))
$show""",
)

WRONG = (
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    for j in range(i + 1, n):
        y = a[j]
        if $test:
            ans += j - i + 1
            break
$show""",
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    best = n
    for j in range(n - 1, i, -1):
        y = a[j]
        if $test:
            best = j
    ans += best - i
$show""",
    """\
${read}ans = 0
for i in range(n):
    x = a[i]
    for j in range(n - 1, i, -1):
        y = a[j]
        if $test:
            ans += j - i
            break
$show""",
)

FAMILY = Family(
    name="stack",
    statement="For each i find the first j > i with a[j] $operation a[i], and add up j - i, or 0 if there is none. "
    "Print $form. Input: n, then a list a of n integers from 1 to 50.",
    operations=OPERATIONS,
    reading=LIST,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=(
        "2\n3 3\n",
        "4\n1 2 3 4\n",
        "5\n5 4 3 2 1\n",
        "6\n2 2 1 1 3 3\n",
        "8\n7 30 6 6 40 1 7 8\n",
        "9\n30 10 20 30 25 5 40 40 2\n",
    ),
    generator=generators.of_list(520, high=50),
)
