"""Progress is a bar on a terminal and sparse lines elsewhere."""

import io
import logging
import sys

from optimrl_jax.jobs.progress import JobProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_elsewhere_the_first_and_the_last_part_are_a_line_each(caplog):
    with caplog.at_level(logging.INFO), JobProgress("step", 50, done=10, every_s=3600.0) as progress:
        for step in range(11, 51):
            progress.advance_to(step, f"loss {step}")
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith("step 11/50  loss 11")
    assert caplog.messages[0].endswith("left")
    assert caplog.messages[1] == "step 50/50  loss 50"


def test_on_a_terminal_a_bar_says_what_is_left_and_lines_stand_above_it(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    handler, root = logging.StreamHandler(terminal), logging.getLogger()
    root.addHandler(handler)
    try:
        with JobProgress("step", 2) as progress:
            progress.advance_to(1, "loss 0.5")
            root.warning("a line of the job")
            progress.advance_to(2, "loss 0.4")
        assert handler.stream is terminal
    finally:
        root.removeHandler(handler)
    shown = terminal.getvalue()
    assert "a line of the job" in shown
    assert "2/2" in shown
    assert "loss 0.4" in shown
