"""Plots are real pictures of the numbers given, and the moving average is what it says."""

import json

import numpy as np
import pytest

from optimrl_jax.evaluation import plots

PNG = b"\x89PNG"


def test_moving_average_by_hand():
    assert plots.moving_average([1.0, 3.0, 5.0, 7.0], window=2).tolist() == [1.0, 2.0, 4.0, 6.0]


def test_moving_average_skips_what_is_not_finite():
    assert plots.moving_average([1.0, np.nan, 5.0], window=3).tolist() == [1.0, 1.0, 3.0]


@pytest.mark.parametrize("window", [1, 3, 50])
def test_moving_average_agrees_with_a_loop(window):
    values = np.random.default_rng(0).normal(size=40)
    slow = [values[max(0, i + 1 - window) : i + 1].mean() for i in range(40)]
    np.testing.assert_allclose(plots.moving_average(values, window=window), slow)


def test_pictures_are_written(tmp_path):
    cell = {"mean": 0.4, "low": 0.3, "high": 0.5}
    scores = {name: {"pass@1": {"p100": cell, "p30": cell}} for name in ("sft", "grpo")}
    plots.pass_bars(tmp_path / "bars.png", scores, k=1, problems=9)
    rows = [{"step": s, "reward": s / 9, "held_out/pass_at_1_p30": s / 20} for s in range(9)]
    metrics, others = tmp_path / "metrics.jsonl", tmp_path / "others.jsonl"
    metrics.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"step": 9, "held_out/pass_at_1_p30": 0.5}]))
    others.write_text(json.dumps({"step": 0, "loss": 1.0}) + "\n")
    plots.learning_curve(tmp_path / "curve.png", metrics)
    plots.learning_curve(tmp_path / "none.png", others)
    assert not (tmp_path / "none.png").exists()
    for name in ("bars.png", "curve.png"):
        assert (tmp_path / name).read_bytes().startswith(PNG)


def test_a_run_on_an_engine_elsewhere_shows_how_far_learner_and_sampler_disagree(tmp_path, monkeypatch):
    figures = []
    new_figure = plots.style.new_figure
    monkeypatch.setattr(plots.style, "new_figure", lambda *a, **k: figures.append(new_figure(*a, **k)) or figures[-1])
    metrics = tmp_path / "metrics.jsonl"
    row = {"reward": 0.5, "sampler_ratio": 1.25, "sampler_mismatch": 0.01, "truncated_share": 0.0}
    metrics.write_text("".join(json.dumps({"step": s} | row) + "\n" for s in range(3)))
    plots.learning_curve(tmp_path / "curve.png", metrics)
    panel = figures[0].axes[-1]
    assert panel.get_ylabel() == "learner against sampler, per token"
    assert [text.get_text() for text in panel.get_legend().get_texts()] == [
        "mean ratio: 1.25",
        "mean |difference of log p|: 0.01",
        "share of tokens at the cap: 0",
    ]
