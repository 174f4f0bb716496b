"""A corpus of planted faults: each problem carries one, and says at which stage and with which reason it must go.

A fault that the pipeline mends (a bad test or a bad solution in an otherwise sound problem) has the stage "" and says
what has to be left of the problem instead.
"""

import dataclasses

from beam_pipelines.records import Problem
from sandbox.protocol import JudgeProgram, to_json
from tests.beam_pipelines import planted
from tests.beam_pipelines.planted import CORRECT_SUMS, FAST_SUM, LOOP_SUM, WRONG_ANSWER, WRONG_ON_NEGATIVES

SYNTAX_ERROR = "n = int(input()\nprint(n)\n"
PYTHON2 = "n = int(raw_input())\nprint sum(map(int, raw_input().split()))\n"
FIRST_LARGEST = "n = int(input())\na = list(map(int, input().split()))\nprint(a.index(max(a)))\n"
LAST_LARGEST = "n = int(input())\na = list(map(int, input().split()))\nprint(n - 1 - a[::-1].index(max(a)))\n"
MIXED = (FIRST_LARGEST,) * 3 + (LAST_LARGEST,) * 3
UNIQUE = (planted.original("3\n1 5 2\n", "1\n"), planted.original("2\n7 4\n", "0\n"))
ANY_PLACE = "Read n numbers and print a position of a largest one."
# Accepts every position of a largest number.
POSITION_JUDGE = """import sys
numbers = open(sys.argv[1]).read().split()[1:]
numbers, place = list(map(int, numbers)), int(open(sys.argv[2]).read())
sys.exit(0 if 0 <= place < len(numbers) and numbers[place] == max(numbers) else 1)
"""
SILENT = "n = int(input())\na = list(map(int, input().split()))\nif n < 0:\n    print(n)\n"
NO_EMPTY_LIST = "n = int(input())\na = list(map(int, input().split()))\nprint(a[0] + sum(a[1:]))\n"
NO_ZERO = "n = int(input())\na = list(map(int, input().split()))\nprint(sum(a) * n // n)\n"
ENDLESS_ABOVE_TWO = """n = int(input())
a = list(map(int, input().split()))
while n == 1000:
    pass
print(sum(a))
"""


def generator(*, edge="", small="", large="", sample=""):
    """A generator whose methods return the given Python expressions; ordinary cases where none is given."""
    bodies = {
        "edge": edge or "self.case(1, 40)",
        "small": small or "self.case(2, 6)",
        "large": large or "self.case(50, 300)",
        "sample": sample or "self.case(5, 150)",
    }
    methods = "".join(f"    def generate_{name}_cases(self):\n        return {body}\n" for name, body in bodies.items())
    return (
        "import random\nclass InputGenerator:\n"
        "    def case(self, low, high):\n"
        "        n = random.randint(low, high)\n"
        "        return f'{n}\\n' + ' '.join(str(random.randint(-9, 9)) for _ in range(n)) + '\\n'\n" + methods
    )


@dataclasses.dataclass(frozen=True)
class Planted:
    """A problem with its fault, the stage and reason that catch it, and how many correct solutions must be left."""

    fault: str
    problem: Problem
    stage: str = ""
    reason: str = ""
    correct_left: int = 6


def rejected() -> list[Planted]:
    """Faults that cost the problem."""
    sums = CORRECT_SUMS[:5]
    wrong_test = planted.original("2\n2 2\n", "5\n")
    mislabeled = (WRONG_ON_NEGATIVES,) * 2
    huge = generator(edge="'1' * (1 << 20)")
    rows = [
        ("statement missing", {"statement": "?!"}, "deduplicate", "statement_missing"),
        (
            "statement garbled",
            {"statement": "Read n numbers, pr\ufffdnt their sum now."},
            "deduplicate",
            "statement_garbled",
        ),
        ("evaluation set", {"statement": EVALUATION["held/1"].upper()}, "deduplicate", "evaluation_duplicate"),
        ("no negative control", {"incorrect": ()}, "labels", "correct_only"),
        ("no positive control", {"correct": ()}, "labels", "incorrect_only"),
        ("Python 2 only", {"correct": (PYTHON2,) * 5, "incorrect": (PYTHON2,)}, "labels", "only_python2"),
        ("invalid original test", {"tests": (wrong_test,)}, "validate", "few_confirmed_correct"),
        ("unknown checker", {"checker": "by eye"}, "validate", "invalid_request"),
        ("lone surrogate", {"tests": (planted.original("1\n\ud800\n", "1\n"),)}, "read", "not_unicode"),
        ("syntax errors", {"correct": (SYNTAX_ERROR,) * 5}, "validate", "few_confirmed_correct"),
        ("mislabeled as correct", {"correct": sums[:4] + mislabeled}, "classify_correctness", "correct_attrition"),
        ("mislabeled as incorrect", {"incorrect": (FAST_SUM,)}, "classify_correctness", "false_positives"),
        ("few correct", {"correct": sums[:3]}, "classify_correctness", "few_correct"),
        (
            "several right outputs",
            {"correct": MIXED, "tests": UNIQUE, "statement": ANY_PLACE},
            "classify_correctness",
            "needs_checker",
        ),
        (
            "several right outputs of originals",
            {"correct": MIXED, "tests": (planted.original("3\n5 1 5\n", "0\n"),), "statement": ANY_PLACE + " Again."},
            "validate",
            "needs_checker",
        ),
        ("generator crashes", {"generators": ("import nothing_like_it",)}, "non_empty", "no_correctness_tests"),
        ("generator without end", {"generators": ("while True: pass",)}, "non_empty", "no_correctness_tests"),
        ("huge inputs", {"generators": (huge,)}, "non_empty", "no_correctness_tests"),
        (
            "no large inputs",
            {"generators": (generator(large="None + 1"),)},
            "non_empty",
            "no_optimization_tests",
        ),
    ]
    return [Planted(fault, planted.problem(fault.replace(" ", "_"), **parts), s, r) for fault, parts, s, r in rows]


def mended() -> list[Planted]:
    """Faults that cost a test or a solution, and problems without any fault: none of them may be lost."""
    sums = CORRECT_SUMS
    crlf = tuple(program.replace("\n", "\r\n") for program in sums)
    marked = tuple("\ufeff" + program for program in sums)
    dos_tests = (planted.original("\ufeff3\r\n1 2 3\r\n", "6\r\n"),)
    empty_edge = generator(edge="'0\\n\\n'", small="self.case(2, 60)")
    slow_edge = generator(edge="'1000\\n' + '1 ' * 1000 + '\\n'", small="self.case(2, 60)")
    tolerant = (LOOP_SUM, FAST_SUM, sums[3], sums[4], NO_EMPTY_LIST, NO_ZERO, NO_EMPTY_LIST + "\n", NO_ZERO + "\n")
    return [
        Planted("nothing", planted.problem("sound")),
        Planted("syntax error in one", planted.problem("one_syntax_error", correct=(*sums, SYNTAX_ERROR))),
        Planted("Python 2 in one", planted.problem("one_python2", correct=(*sums, PYTHON2))),
        Planted("one wrong on original tests", planted.problem("one_wrong", correct=(*sums, WRONG_ANSWER))),
        Planted("one wrong on generated tests", planted.problem("one_mislabeled", correct=(*sums, WRONG_ON_NEGATIVES))),
        Planted("CRLF", planted.problem("crlf", correct=crlf, tests=dos_tests)),
        Planted("BOM", planted.problem("bom", correct=marked, statement=ANY_SUM)),
        Planted(
            "invalid generated test",
            planted.problem("invalid_edge", correct=tolerant, generators=(empty_edge,)),
            correct_left=8,
        ),
        Planted(
            "slow generated test",
            planted.problem(
                "slow_edge",
                correct=(*sums[1:], *(ENDLESS_ABOVE_TWO + "\n" * n for n in range(3))),
                generators=(slow_edge,),
            ),
            correct_left=8,
        ),
        Planted(
            "several generators, one of them broken",
            planted.problem("two", generators=("1 / 0", planted.SUM_GENERATOR)),
        ),
        Planted(
            "several right outputs, and a program that judges them",
            planted.problem(
                "judged",
                correct=MIXED,
                tests=(planted.original("3\n5 1 5\n", "0\n"),),
                statement=ANY_PLACE + " Anywhere.",
                checker=to_json(JudgeProgram(POSITION_JUDGE, "python3")),
            ),
        ),
        Planted("same statement as another", planted.problem("twin_a", statement=TWIN)),
        Planted("same statement as another", planted.problem("twin_b", statement=TWIN.lower() + "!")),
    ]


ANY_SUM = "Read n and n numbers. Print their sum; if there are several sums, print any of them."
EVALUATION = {"held/1": "You are given n stones with weights. Print the total weight of all the stones that you have."}
TWIN = "A baker sells n loaves and writes every price down. Print what all the loaves cost together at the end."
