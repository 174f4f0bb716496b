"""Balanced substrings: all substrings, prefix balances compared in bulk, or a counter of prefix balances."""

from collections.abc import Callable

from beam_pipelines.sources.mini.family import WORD, Family, Operation


def _answer(holds: Callable[[int], bool]) -> Callable[[str], int]:
    def answer(text: str) -> int:
        word = text.strip()
        parts = [word[i:j] for j in range(1, len(word) + 1) for i in range(j)]
        return sum(holds(part.count("a") - part.count("b")) for part in parts)

    return answer


OPERATIONS = (
    Operation(
        "balanced",
        "as many a as b",
        {"test": "d == 0", "partners": "seen[p]"},
        _answer(lambda surplus: surplus == 0),
    ),
    Operation(
        "surplus_3",
        "3 more a than b",
        {"test": "d == 3", "partners": "seen[p - 3]"},
        _answer(lambda surplus: surplus == 3),
    ),
    Operation(
        "differ_by_2",
        "counts of a and b differing by 2",
        {"test": "abs(d) == 2", "partners": "seen[p - 2] + seen[p + 2]"},
        _answer(lambda surplus: surplus in (2, -2)),
    ),
)

SLOW = (
    """\
${read}n = len(s)
ans = 0
for i in range(n):
    d = 0
    for j in range(i, n):
        d += 1 if s[j] == "a" else -1
        if $test:
            ans += 1
$show""",
    """\
${read}ans = 0
for i in range(len(s)):
    d = 0
    for c in s[i:]:
        if c == "a":
            d += 1
        else:
            d -= 1
        if $test:
            ans += 1
$show""",
    """\
${read}a = [0]
for c in s:
    a.append(a[-1] + (1 if c == "a" else -1))
ans = 0
for i in range(len(a)):
    for j in range(i):
        d = a[i] - a[j]
        if $test:
            ans += 1
$show""",
)

MEDIUM = (
    """\
${read}seen = {0: 1}
p = ans = 0
for c in s:
    p += 1 if c == "a" else -1
    for x in seen:
        d = p - x
        if $test:
            ans += seen[x]
    seen[p] = seen.get(p, 0) + 1
$show""",
    """\
${read}a = [0]
for c in s:
    a.append(a[-1] + (1 if c == "a" else -1))
ans = 0
for x in set(a):
    total = 0
    for p in a:
        d = p - x
        if $test:
            ans += total
        if d == 0:
            total += 1
$show""",
    """\
${read}seen = {0: 1}
p = ans = 0
for c in s:
    p += 1 if c == "a" else -1
    for x, y in seen.items():
        d = p - x
        ans += y * ($test)
    seen[p] = seen.get(p, 0) + 1
$show""",
    """\
${read}seen = {0: 1}
p = ans = 0
for c in s:
    p += 1 if c == "a" else -1
    t = [(p - x, seen[x]) for x in seen]
    ans += sum(y for d, y in t if $test)
    seen[p] = seen.get(p, 0) + 1
$show""",
)

FAST = (
    """\
${read}seen = [0] * (2 * len(s) + 9)
seen[0] = 1
p = ans = 0
for c in s:
    p += 1 if c == "a" else -1
    ans += $partners
    seen[p] += 1
$show""",
    """\
from itertools import accumulate
${fast_read}seen = [0] * (2 * len(s) + 9)
seen[0] = 1
ans = 0
for p in accumulate([1 if c == "a" else -1 for c in s]):
    ans += $partners
    seen[p] += 1
$show""",
    """\
from collections import defaultdict
${read}seen = defaultdict(int)
p = ans = 0
for c in s:
    seen[p] += 1
    p += 1 if c == "a" else -1
    ans += $partners
$show""",
)

WRONG = (
    """\
from collections import Counter
${read}seen = Counter()
p = ans = 0
for c in s:
    p += 1 if c == "a" else -1
    ans += $partners
    seen[p] += 1
$show""",
    """\
${read}ans = d = 0
for c in s:
    d += 1 if c == "a" else -1
    if $test:
        ans += 1
$show""",
    """\
from collections import Counter
${read}seen = Counter([0])
p = ans = 0
for c in s:
    p += 1 if c == "a" else 0
    ans += $partners
    seen[p] += 1
$show""",
)

GENERATOR = """\
import random


class InputGenerator:
    size = 520

    def word(self, n):
        return "".join(random.choices("ab", weights=(3, 2), k=n)) + "\\n"

    def generate_edge_cases(self):
        n = random.randint(self.size // 2, self.size)
        run = random.choice([50, 60, 70])
        if random.random() < 0.1:
            return random.choice("ab") + "\\n"
        return ("a" * run + "b" * run)[::random.choice([1, -1])] * (n // (2 * run)) + "\\n"

    def generate_small_cases(self):
        return "".join(random.choices("aab", k=random.randint(3, 12))) + "\\n"

    def generate_sample_cases(self):
        return self.word(random.randint(self.size // 4, self.size * 7 // 10))

    def generate_large_cases(self):
        return self.word(self.size)
"""

FAMILY = Family(
    name="substrings",
    statement="Count the non-empty substrings of s with $operation. Print $form. Input: a string s of letters a and b.",
    operations=OPERATIONS,
    reading=WORD,
    slow=SLOW,
    medium=MEDIUM,
    fast=FAST,
    wrong=WRONG,
    base_inputs=("a\n", "ab\n", "aaaa\n", "bbabb\n", "aabaabba\n", "abbbbbaababaaaaaaaabba\n"),
    generator=GENERATOR,
)
