"""What can survive a build, told from a source alone."""

from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Rejection
from beam_pipelines.report.survival import tabulate_survival
from tests.beam_pipelines import planted

RECORDS = [
    planted.problem("whole"),
    planted.problem("no_wrong", incorrect=()),
    planted.problem("few_right", correct=planted.CORRECT_SUMS[:3]),
    planted.problem("one_right", correct=planted.CORRECT_SUMS[:1]),
    planted.problem("no_tests", tests=()),
    planted.problem("no_generator", generators=()),
    Rejection("a", "read", "interactive"),
    Rejection("b", "read", "interactive"),
]


def test_gates_are_counted_alone_and_after_each_other():
    table = tabulate_survival(RECORDS, BuildOptions(), patience_s=60)
    assert table.alone == {
        "original tests": 5,
        "2 correct solutions to agree": 5,
        "--min_correct 5": 4,
        "--min_incorrect 1": 5,
        "an input generator": 5,
    }
    assert list(table.together.values()) == [5, 4, 3, 2, 1]
    assert (table.seen, table.is_whole, table.survivors) == (8, True, 1)
    assert table.rejections == {"interactive": 2}


def test_moved_gates_let_more_through_and_tests_alone_need_only_tests():
    moved = BuildOptions(min_correct=2, min_incorrect=0)
    assert tabulate_survival(RECORDS, moved, patience_s=60).survivors == 3
    assert tabulate_survival(RECORDS, BuildOptions(tests_only=True), patience_s=60).survivors == 5


def test_a_large_source_is_left_after_a_while():
    table = tabulate_survival(RECORDS, BuildOptions(), patience_s=-1)
    assert (table.seen, table.is_whole) == (1, False)
