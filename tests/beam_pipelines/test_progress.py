"""Progress: sparse lines where nobody watches, a bar with rate and stage on a terminal."""

import io
import itertools

from rich.console import Console

from beam_pipelines.runners import progress


def test_elsewhere_each_stage_says_once_what_it_did(capsys):
    shown = progress.StageProgress()
    shown.register("labels")
    shown.expect(3, last_stage="labels")
    for is_kept in (True, True, False):
        shown.add("labels", is_kept=is_kept)
    shown.finish("labels")
    shown.finish("labels")
    shown.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("labels: 3 problems, 2 kept, 1 rejected")


def test_a_long_build_says_elsewhere_what_is_done_and_left_in_lines_that_become_rare(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    shown = progress.StageProgress()
    shown.register("labels")
    shown.expect(600, last_stage="labels")
    for _ in range(600):
        clock[0] += 2.0
        shown.add("labels", is_kept=True, executions=4.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[   6.0 s] 3 of 600 problems done, 2 executions/s, about 20 min left"
    times = [float(line[1:].partition(" s]")[0]) for line in lines]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == 60


def test_a_terminal_shows_problems_done_the_stage_and_executions_a_second():
    screen = io.StringIO()
    bar = progress.ProgressBar(7, console=Console(file=screen, force_terminal=True, width=120))
    bar.update(3, stage="validate", executions_per_s=250.0)
    bar.close()
    assert "3/7" in screen.getvalue()
    assert "validate, 250 executions/s" in screen.getvalue()
