"""How slow tests spread, from suites that are spelt out."""

import numpy as np
import pytest

from beam_pipelines.report import dataset_statistics, tail_tables
from beam_pipelines.report.page import report_page
from tests.beam_pipelines import planted


def suites(*rows, status=0):
    """Examples of one problem each: the seconds of its optimization tests, one reference."""
    return [planted.example(np.array(seconds)[:, None], kinds=[2] * len(seconds), status=status) for seconds in rows]


def test_every_problem_weighs_the_same_in_the_prevalence_of_slow_tests():
    table = tail_tables.prevalence_table(suites([0.2, 0.2, 0.2, 2.0], [0.2] * 100))
    assert table["optimization > 1 s"] == {
        "tests_share": pytest.approx(0.125),
        "problems_with_any": 0.5,
        "problems_with_a_tenth": 0.5,
    }
    assert "original > 1 s" not in table


def test_the_slowest_tests_take_their_share_of_the_total():
    assert tail_tables.slowest_share(np.array([1.0] * 9 + [11.0]), 0.1) == pytest.approx(0.55)
    assert tail_tables.slowest_share(np.array([1.0, 1.0]), 0.5) == 0.5
    assert tail_tables.slowest_share(np.zeros(3), 0.5) == 0
    assert tail_tables.cumulative_table(suites([1.0] * 9 + [11.0]))["optimization"]["slowest_10%"] == pytest.approx(
        0.55
    )


def test_quantiles_are_medians_over_problems():
    table = tail_tables.quantile_table(suites([1.0, 1.0, 3.0], [2.0, 2.0, 5.0], [4.0, 4.0, 4.0]))
    assert (table["optimization"]["p50"], table["optimization"]["max"]) == (2.0, 4.0)


def test_totals_count_durations_with_a_recorded_run():
    assert tail_tables.total_table(suites([1.0, 2.0], [3.0])) == {
        "problems": 2,
        "references": 2,
        "tests": 3,
        "durations": 3,
        "timeouts": 0,
    }


def test_the_best_human_succeeds_on_every_optimization_test():
    seconds, status = np.array([[0.1, 0.3, 0.2], [0.1, 0.3, 0.3]]), np.array([[0, 0, 0], [2, 0, 0]])
    example = planted.example(seconds, kinds=[2, 2], status=status)
    assert tail_tables.best_humans([example]) == {"made/up": {"reference": "r2", "mean_s": pytest.approx(0.25)}}


def test_condensed_examples_give_the_same_tables_without_their_texts():
    example = planted.example(np.array([[0.1], [0.2]]), kinds=[2, 2], lengths=[5, 9])
    condensed = dataset_statistics.condense(example)
    assert "test_input" not in condensed
    assert tail_tables.size_table([condensed]) == tail_tables.size_table([example])
    assert tail_tables.size_table([example])["optimization"]["median"] == 7


def test_the_page_escapes_what_it_shows_and_leaves_out_empty_tables():
    page = report_page({"a < b": {"x": {"n": 1.5}}, "nothing": {}}, {"tails": "t.png"}, notes=["1 & 2"])
    assert "a &lt; b" in page
    assert "<td>1.5</td>" in page
    assert "1 &amp; 2" in page
    assert 'src="t.png"' in page
    assert "nothing" not in page
