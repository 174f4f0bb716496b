"""A mix for SFT loses what evaluation sets contain, and nothing else."""

import json

import pytest

from beam_pipelines.sft_mix import __main__ as sft_mix
from optimrl_jax.jobs.command_line import run_command

STATEMENT = (
    "Given a list of n numbers, print the largest sum of any contiguous part of the list, or zero if all are negative."
)


def talk(asked, answer="Fine."):
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]}


def clean(tmp_path, talks, **flags):
    (tmp_path / "mix.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in talks))
    (tmp_path / "held_out.jsonl").write_text(json.dumps({"id": "sum", "statement": STATEMENT}) + "\n")
    options = {
        "sft_mix": tmp_path / "mix.jsonl",
        "evaluation_sets": tmp_path / "held_out.jsonl",
        "output": tmp_path / "clean.jsonl",
    } | flags
    return run_command(sft_mix.main, [f"--{name}={value}" for name, value in options.items()], name="sft_mix")


def test_copies_wrapped_copies_and_near_copies_go_and_the_rest_stays_as_it_was(tmp_path, capsys):
    talks = [
        talk("How do I sort words?"),
        talk(STATEMENT.upper()),
        talk(f"Solve this problem in Python.\n\n{STATEMENT}\n\nThink step by step."),
        talk(STATEMENT.replace("negative.", "below zero.")),
        talk("What was asked?", answer=STATEMENT),
    ]
    assert clean(tmp_path, talks) == 0
    kept = [json.loads(line) for line in (tmp_path / "clean.jsonl").read_text().splitlines()]
    assert kept == [talks[0], talks[4]]
    removed = [json.loads(line) for line in (tmp_path / "clean.jsonl.removed.jsonl").read_text().splitlines()]
    assert [row["line"] for row in removed] == [2, 3, 4]
    assert all("sum" in row["evaluation"] and row["similarity"] >= 0.8 for row in removed)
    assert "kept 2 conversations of 5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"sft_mix": "/absent"}, "--sft_mix = '/absent': expected a file"),
        ({"evaluation_sets": ""}, "--evaluation_sets = '': expected at least one statement"),
        ({"similar": 2}, "--similar = 2.0: expected a share"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, capsys, flags, message):
    assert clean(tmp_path, [talk("Hello")], **flags) == 2
    assert message in capsys.readouterr().err


def test_a_line_that_is_no_conversation_is_named_and_leaves_no_output(tmp_path, capsys):
    assert clean(tmp_path, [talk("Hello"), {"text": "x"}]) == 2
    assert "mix.jsonl, line 2: expected a conversation" in capsys.readouterr().err
    assert not (tmp_path / "clean.jsonl").exists()
