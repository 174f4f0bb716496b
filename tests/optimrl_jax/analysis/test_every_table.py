"""Every number of the page is the known one: each table whole, row by row and column by column."""

import csv
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from optimrl_jax import analyze
from tests.optimrl_jax.analysis import planted_page
from tests.optimrl_jax.analysis.expected import passes, rankings, replays, runs, scores, service_states

PARTS = (scores, replays, rankings, passes, runs, service_states)
TABLES = (
    "policies", "drift", "scores", "differences", "profiles", "difficulty", "win_rates", "best_human", "cases",
    "lengths", "dynamics", "equal_wall_clock", "heatmap", "near_best", "discrimination", "agreement", "calibrations",
    "separation", "time_limits", "inflation", "scalarizations", "metrics", "other_definitions",
    "definitions_agreement", "coverage", "drift_by_problem", "short_run_noise", "variance", "movement",
    "workload_order", "workload_summary", "profile_agreement", "corrections", "protocols", "training_runs", "held_out",
    "service", "bursts", "silent_and_bursty", "service_states",
)  # fmt: skip
# float32 seconds, and means of them.
EXACT = {"rel": 2e-4, "abs": 2e-5}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return planted_page.write_page(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def expected(page):
    return {name: rows for part in PARTS for name, rows in part.tables(page).items()}


def written(page, name):
    return pq.read_table(page.directory / f"{name}.parquet").to_pylist()


def differing(found, wanted):
    """List the cells that are not as planted."""
    return [
        f"row {number}, {column}: {row[column]!r} is not {value!r}"
        for number, (row, want) in enumerate(zip(found, wanted, strict=True))
        for column, value in want.items()
        if not is_same(row[column], value)
    ]


def is_same(found, wanted):
    if isinstance(wanted, str | bool | np.bool_) or wanted is None:
        return found == wanted
    if isinstance(wanted, tuple):
        return [float(part) for part in found.split()] == pytest.approx(wanted, rel=2e-3, abs=1e-3)
    if isinstance(wanted, int | float | np.number):
        return found == pytest.approx(wanted, **EXACT, nan_ok=True)
    return found == wanted


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_planted_numbers(page, expected, name):
    found = written(page, name)
    wanted = expected[name]
    assert len(found) == len(wanted)
    assert list(found[0]) == list(dict.fromkeys(column for row in wanted for column in row))
    assert not differing(found, wanted)


def test_no_table_of_the_page_is_without_planted_numbers(page, expected):
    assert {path.stem for path in page.directory.glob("*.parquet")} == set(expected) == set(TABLES)
    for name in TABLES:
        with (page.directory / f"{name}.csv").open() as file:
            assert len(list(csv.DictReader(file))) == len(expected[name])


def test_numbers_in_sentences_are_the_planted_ones(page):
    """Captions and texts count problems, cells, passes, bursts and runs."""
    text = re.sub(r"<[^>]*>", " ", (page.directory / "index.html").read_text())
    for sentence in (
        "4 policies on 4 problems (twin)",
        "percent of 4 problems",
        "pass@1, percent, n = 4 problems",
        "columns within 1 point of the best, and among the last 2",
        "over 2 passes; cells: references on optimization tests",
        "left: n = 78 cells",
        "n = 80 cells of references, 80 drawn",
        "2.5 % of the stored durations here are shorter than the smallest beta",
        "problems by difficulty: 1: 2, 3: 2",
        "Bursts: 1, runs: 1.",
        "percent of rollouts after the first 10% of batches",
        "the 12 largest speed-ups over base",
        "draws within 1%",
        "a mark for each of 4 problems",
        "the worst 1",
        "n = 4 problems; s0: slowest references, s9: fastest",
    ):
        assert sentence in text, sentence


def test_the_page_holds_every_section_and_needs_no_other_file(page):
    text = (page.directory / "index.html").read_text()
    assert text.count("<h2") == len(analyze.SECTIONS)
    assert "Nothing to show" not in text
    assert not re.findall(r"(?:src|href)='(?!data:|#)", text)
    for name in ("pass_at_1", "pass_at_10", "profiles", "heatmap", "sweep_alpha", "difficulty_radar", "held_out"):
        assert (page.directory / f"{name}.png").read_bytes().startswith(b"\x89PNG")
