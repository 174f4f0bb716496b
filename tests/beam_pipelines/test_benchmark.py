"""The benchmark measures what it says, on sizes small enough for a test."""

import json

from beam_pipelines import pipeline
from beam_pipelines.stages import verdicts
from tests.benchmarks import pipeline as benchmark
from tests.benchmarks import pipeline_promises as promises


def test_made_up_problems_pass_both_rounds_of_filters(monkeypatch, tmp_path):
    monkeypatch.setattr(benchmark, "PAPER_PROBLEMS", 3)
    assert benchmark.paper_scale(0, tmp_path)["paper_scale_filter_s"] > 0
    problem = benchmark.synthetic(0)
    assert verdicts.passes_all_tests(problem)[: len(problem.correct)].all()
    assert not verdicts.passes_all_tests(problem)[len(problem.correct) :].any()


def test_figures_of_a_scale_are_rates_and_bytes(monkeypatch, tmp_path):
    monkeypatch.setattr(benchmark, "SAMPLE_PROBLEMS", 2)
    figures = json.loads(json.dumps(benchmark.at_scale(1, tmp_path)))
    assert figures["records_per_s"] > 0
    assert figures["peak_memory_bytes"] > 1 << 20
    assert len(list((tmp_path / "records_1" / "records").glob("*.json.gz"))) == 2


def test_every_layout_is_read_and_the_store_gives_back_all_that_it_was_given(tmp_path):
    assert set(promises.layouts_read(tmp_path)) == set(pipeline.SOURCES)
    assert promises.store_answers_per_s(tmp_path, answers=200) > 0
