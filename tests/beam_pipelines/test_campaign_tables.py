"""The paper's tables of what generated tests did, from traces that are spelt out."""

import pytest

from beam_pipelines.report import campaign_tables


def trace(name, *, before, generated, correct=(1.0, 1.0), accepted=1, attempts=2, rejected_by=None):
    """A problem's way to the filters: false-positive rates and correct pass rates before and with generated tests."""
    notes = {"attempts": attempts, "tests_added": 15 * accepted, "accepted": accepted}
    notes |= {"incorrect_pass_rate_before": before, "incorrect_pass_rate_generated": generated}
    notes |= {"correct_pass_rate_before": correct[0], "correct_pass_rate_generated": correct[1]}
    counts = {"correct": 10, "incorrect": 4, "tests": 30}
    filtered = {"correct_pass_rate_filtered": 1.0, "incorrect_pass_rate_filtered": generated}
    filtered |= {"correct_success_generated": 90.0, "correct_timeout_generated": 10.0, "correct_success_filtered": 90.0}
    steps = [
        {"stage": "generate_correctness", **counts, "notes": list(notes.items())},
        {"stage": "filter_tests_correctness", **counts, "tests": 28, "notes": list(filtered.items())},
    ]
    line = {"id": name, "trace": steps}
    return line | {"rejected_by": rejected_by} if rejected_by else line


TRACES = [
    trace("a", before=0.2, generated=0.0),
    trace("b", before=0.5, generated=0.1, correct=(1.0, 0.4)),
    trace("c", before=0.0, generated=0.0, accepted=2),
    trace("d", before=0.6, generated=0.6, accepted=0),
    {"id": "e", "trace": [{"stage": "labels", "correct": 3, "incorrect": 1, "tests": 2, "notes": []}]},
]
ROWS = campaign_tables.campaign_rates(TRACES)


def test_generation_counts_problems_attempts_and_tests_by_campaign():
    table = campaign_tables.generation_table(TRACES)
    assert table["correctness"] == {
        "problems": 4,
        "with_accepted_set": 3,
        "with_accepted_set_share": 0.75,
        "pass@1": 4 / 8,
        "accepted_tests": 60,
        "mean_tests": 20,
    }
    assert table["optimization"]["problems"] == 0


def test_attrition_is_of_the_problems_that_have_generated_tests():
    table = campaign_tables.attrition_table(ROWS)
    assert (table["problems"], table["with_generated_tests"]) == (4, 3)
    assert (table["lower"], table["unchanged"], table["higher"]) == (1, 2, 0)
    assert table["largest_drop"] == pytest.approx(0.6)
    assert (table["drop_above_10%"], table["drop_above_50%"]) == (1, 1)


def test_false_positives_shift_left():
    table = campaign_tables.false_positive_table(ROWS)
    assert table["before"]["mean"] == pytest.approx(0.7 / 3)
    assert (table["before"]["above_5%"], table["generated"]["above_5%"]) == (2, 1)
    assert (table["before"]["above_20%"], table["generated"]["above_20%"]) == (1, 0)
    assert sum(value for name, value in table["before"].items() if " to " in name) == 3
    assert campaign_tables.change_counts(ROWS) == {"improved": 2, "unchanged": 1, "worse": 0, "to_none": 1}


def test_lists_name_the_extreme_problems():
    assert list(campaign_tables.largest_reductions(ROWS)) == ["b", "a"]
    assert list(campaign_tables.largest_drops(ROWS)) == ["b"]
    assert list(campaign_tables.without_generated_tests(ROWS)) == ["d"]


def test_statuses_and_solutions_add_up_over_problems():
    table = campaign_tables.status_table(TRACES)
    assert table["correctness, correct, generated"] == {"success": 360, "timeout": 40, "failure": 0, "fault": 0}
    solutions = campaign_tables.solution_table(
        [*TRACES, trace("f", before=0, generated=0, rejected_by="generate_correctness")]
    )
    assert solutions["generate_correctness"] == {"problems": 4, "correct": 40, "incorrect": 16, "tests": 120}
    assert solutions["filter_tests_correctness"]["problems"] == 5


def test_tables_of_no_problems_are_empty_or_zero():
    assert campaign_tables.campaign_rates([]) == []
    assert campaign_tables.attrition_table([])["mean_drop"] == 0
    assert campaign_tables.false_positive_table([])["before"]["mean"] == 0
    assert campaign_tables.largest_drops([]) == {}
