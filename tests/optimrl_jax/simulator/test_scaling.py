"""The benchmark of scaling measures small workers, and draws a panel for each part that it measured."""

import sys

import pytest

from tests.benchmarks import scaling


def test_rollouts_are_judged_by_each_number_of_workers(tmp_path):
    found = scaling.judging(tmp_path, backend="local", workers=(1, 2), rollouts=4)
    assert found["size"] == [1, 2]
    assert all(rate > 0 for rate in found["rollouts_per_s"])
    # Programs cannot run for longer than all processors have time for.
    assert 0 < found["limit_share"] <= 2 / scaling.CORES


def test_every_part_that_was_measured_is_drawn(tmp_path):
    part = {"size": [1, 2, 4], "seconds": [1.0, 2.0, 4.0], "exponent": 1.0, "limit_share": 0.9}
    rates = {"size": [1, 2], "rollouts_per_s": [3.0, 5.0], "exponent": 0.7, "limit_share": 0.5}
    figure = scaling.draw({"sweep": part, "judging": rates})
    assert [axes.get_title() for axes in figure.axes] == [
        "sweep: exponent 1.00, limit 90%",
        "judging: exponent 0.70, limit 50%",
    ]


def test_parts_that_do_not_exist_are_refused_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scaling", f"--output={tmp_path}", "--only=sweep,other"])
    with pytest.raises(SystemExit):
        scaling.main()
    assert "--only=other: expected names among sweep, decisions, builds, judging" in capsys.readouterr().err
