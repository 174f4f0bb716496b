"""What a build says of itself: stage table, cost sheet, card."""

import dataclasses

import pytest
import yaml

from beam_pipelines import pipeline
from beam_pipelines.options import BuildOptions
from beam_pipelines.records import Rejection, StageCount
from beam_pipelines.report import card, console, costs, stage_table


def test_a_stage_keeps_what_it_was_given_less_what_it_rejected():
    rejections = [Rejection("a", "read", "not_json"), *(Rejection(f"{n}", "time", "slow") for n in range(3))]
    rejections += [Rejection("z", "time", "other")]
    rows = stage_table.stage_rows(["read", "labels", "time"], rejections, kept=4)
    assert [(row.stage, row.kept, row.rejected) for row in rows] == [("read", 8, 1), ("labels", 8, 0), ("time", 4, 4)]
    assert rows[2].reasons == {"slow": 3, "other": 1}


@pytest.mark.parametrize("has_paper", [True, False])
def test_counts_of_the_paper_stand_beside_its_own_source_alone(has_paper, capsys):
    console.print_stage_table(stage_table.stage_rows(["read", "labels"], [], kept=3), has_paper=has_paper)
    assert ("paper kept" in " ".join(capsys.readouterr().out.split())) == has_paper


def test_a_table_too_wide_for_a_console_is_turned_and_what_is_no_number_stays_blank(capsys):
    figures = {f"a_rather_long_name_{n}": float(n) for n in range(12)} | {"undefined": float("nan")}
    console.print_figures("attrition", {"": figures}, form="{:.4g}")
    printed = capsys.readouterr().out
    assert all(name in printed for name in figures)
    assert "nan" not in printed


def test_costs_add_up_over_stages_and_kinds_of_tests():
    step = StageCount("validate", 1, 1, 1, (("executions", 100), ("program_s", 36.0), ("waited_s", 18.0), ("other", 9)))
    timing = dataclasses.replace(step, stage="time")
    totals = costs.total_spent([[step, step], [timing]])
    assert {name: totals[name] for name in ("executions", "program_s", "waited_s")} == {
        "executions": 300,
        "program_s": 108.0,
        "waited_s": 54.0,
    }
    more = costs.add_spent(totals, {"executions": 1, "program_s": 2.0, "waited_s": 3.0})
    assert (more["executions"], more["waited_s"], more["executions_original"]) == (301, 57.0, 200)
    cost = costs.measure_cost(totals, problems=3, workers=2, dataset_bytes=3000, store_bytes=30)
    assert (cost.program_h, cost.sandbox_h) == (0.03, 0.03)
    assert cost.mean_s == {"original": pytest.approx(0.36), "optimization": pytest.approx(0.36)}


def test_the_papers_counts_and_seconds_cost_about_31_000_hours():
    table = costs.cost_at_scale(costs.PAPER_MEAN_S)
    assert 31_000 / 2 < table["total"]["program_h"] < 31_000 * 2
    assert table["original"]["executions"] == 938_227 * 107


def test_a_corpus_costs_solutions_times_tests_times_seconds():
    workload = {"original": costs.Workload(10, 5), "optimization": costs.Workload(10, 20, runs=3)}
    table = costs.cost_at_scale({"original": 3.6}, workload)
    assert table == {
        "original": {"executions": 50, "program_h": pytest.approx(0.05)},
        "total": {"executions": 50, "program_h": pytest.approx(0.05)},
    }


MANIFEST = {
    "options": {
        "source": "code_contests",
        "repeats": 3,
        "name": "My set",
        "version": "2.1.0",
        "license": "",
        "homepage": "https://example.org",
    },
    "splits": {"rl_train": 7, "rl_test": 3},
    "revision": "abc",
    "measured_under": [{"host": "here"}],
}
FEATURES = {"id": ("string", 0), "test_input": ("string", 1), "duration_s": ("float32", 2)}


def test_the_card_names_licence_splits_and_what_measured():
    text = card.dataset_card(MANIFEST, stages=["read", "time"])
    for part in ("My set", "CC BY 4.0", "| rl_train | 7 |", "Revision abc", "read, time", "host here"):
        assert part in text


def test_the_header_of_the_card_is_what_hubs_read():
    sizes, files = {"rl_train": 70, "rl_test": 30}, {"rl_train": "rl_train.parquet"}
    header = card.hub_header(MANIFEST, features=FEATURES, sizes=sizes, data_files=files)
    (value,) = filter(None, yaml.safe_load_all(header))
    assert (value["license"], value["pretty_name"], value["size_categories"]) == ("cc-by-4.0", "My set", ["n<1K"])
    assert value["dataset_info"]["features"] == [
        {"name": "id", "dtype": "string"},
        {"name": "test_input", "sequence": "string"},
        {"name": "duration_s", "sequence": {"sequence": "float32"}},
    ]
    assert value["dataset_info"]["splits"][1] == {"name": "rl_test", "num_bytes": 30, "num_examples": 3}
    assert value["configs"][0]["data_files"] == [{"split": "rl_train", "path": "rl_train.parquet"}]
    assert card.without_header(header + "# Card\n") == card.without_header("# Card\n") == "# Card\n"


def test_every_source_has_a_licence_to_name():
    assert set(card.LICENCES) == set(pipeline.SOURCES)
    assert card.license_of(BuildOptions(source="mini")) == "apache-2.0"
    assert card.license_of(BuildOptions(source="mini", license="cc0-1.0")) == "cc0-1.0"
