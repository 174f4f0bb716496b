"""Sources of input generators for the shapes of input that several families share. They run in the sandbox only."""

import string

_LIST = string.Template("""\
import random


def text(a):
    return f"{len(a)}\\n{' '.join(map(str, a))}\\n"


class InputGenerator:
    size = $size
    low, high = $low, $high

    def numbers(self, n):
        return [random.randint(self.low, self.high) for _ in range(n)]

    def generate_edge_cases(self):
        n = random.randint(self.size // 2, self.size)
        a = self.numbers(n)
        shape = random.choice(["equal", "sorted", "reversed", "two", "wave"])
        if random.random() < 0.1:
            a = a[:2]
        elif shape == "equal":
            a = [a[0]] * n
        elif shape == "sorted":
            a.sort()
        elif shape == "reversed":
            a.sort(reverse=True)
        elif shape == "two":
            a = random.choices(a[:2], k=n)
        else:
            a = [self.high - i % (self.high - self.low) for i in range(n)]
        return text(a)

    def generate_small_cases(self):
        high = random.choice([3, 8, self.high])
        return text([random.randint(1, min(high, self.high)) for _ in range(random.randint(2, 9))])

    def generate_sample_cases(self):
        return text(self.numbers(random.randint(self.size // 4, self.size * 7 // 10)))

    def generate_large_cases(self):
        return text(self.numbers(self.size))
""")


def of_list(size: int, *, high: int, low: int = 1) -> str:
    """Inputs `n`, then n integers in [low, high], in [1, high] where n is small.

    Edge cases are equal, sorted, reversed, two-valued or periodic lists, and now and then one of two numbers.
    """
    return _LIST.substitute(size=size, low=low, high=high)
