"""A scripted judge whose answers are known: pairs are blinded, directions are checked, votes and filters counted."""

import dataclasses
import json

import pyarrow.parquet as pq
import pytest

from optimrl_jax import compare
from optimrl_jax.analysis import pairwise
from optimrl_jax.evaluation import records
from tests.optimrl_jax.analysis import planted
from tests.optimrl_jax.evaluation.endpoint import completion, scripted
from tests.optimrl_jax.grpo.stored import DATA
from tests.optimrl_jax.serving.served import served

PAIR = pairwise.Pair("p", "Sort.", 1, ("a", "b"), ("slow()", "fast()"), (2.0, 1.0))


def verdict(faster, *, category="IO_OPTIMIZATION", improves=None):
    fields = {"faster": faster, "category": category, "kind": "SUPERFICIAL", "improves_complexity": improves}
    return f"Thinking {{about}} it.\n```json\n{json.dumps(fields)}\n```"


def test_prompts_hide_names_and_seconds_and_swap_the_programs():
    plain, swapped = (pairwise.comparison_prompt(PAIR, is_swapped=swap) for swap in (False, True))
    assert plain.index("slow()") < plain.index("fast()")
    assert swapped.index("fast()") < swapped.index("slow()")
    assert "2.0" not in plain


def test_verdicts_are_read_from_the_last_object_and_turned_back():
    assert pairwise.read_verdict(verdict(2), is_swapped=False).faster == 1
    assert pairwise.read_verdict(verdict(1), is_swapped=True).faster == 1
    assert pairwise.read_verdict(verdict(0), is_swapped=True).faster is None
    for text in ("no object", verdict(3), verdict(1, category="MAGIC"), '{"faster": 1}'):
        assert pairwise.read_verdict(text, is_swapped=False) is None


def test_only_answers_with_the_measured_direction_vote():
    right = pairwise.PairVerdict(1, "IO_OPTIMIZATION", "SUPERFICIAL", False)
    wrong = pairwise.PairVerdict(0, "ALGORITHM_CHANGE", "ALGORITHMIC", True)
    found = pairwise.classify_pair(PAIR, [wrong] * 6 + [right] * 3 + [None], least=3)
    assert (found.category, found.correct, found.answers) == ("IO_OPTIMIZATION", 3, 10)
    assert pairwise.classify_pair(PAIR, [wrong] * 8 + [right] * 2, least=3).category == ""


@pytest.fixture
def judged(tmp_path):
    """Compares the planted policies with a judge that names the faster text three times of four for each problem."""
    stored = _written(tmp_path)
    asked = []

    def answer(body):
        text = body["messages"][0]["content"]
        statement = text.split("Problem:\n")[1].split("\n")[0]
        asked.append(statement)
        first_is_fast = text.index("# fast") < text.index("# base")
        right, wrong = (1, 2) if first_is_fast else (2, 1)
        return completion(verdict(wrong if asked.count(statement) == 4 else right, improves=True))

    def run(judge="judge"):
        with scripted(answer) as url:
            flags = [f"--records={stored}", "--policy=fast", "--against=base", f"--endpoint={url}#{judge}"]
            assert compare.main([*flags, f"--output={tmp_path / 'out'}", "--answers=4"]) == 0
        return json.loads((tmp_path / "out" / "summary.json").read_text()), len(asked), tmp_path / "out"

    return run


def test_pairs_are_judged_counted_and_not_asked_for_again(judged):
    summary, asked, output = judged()
    assert (summary["pairs"], summary["classified"], asked) == (4, 4, 16)
    assert summary["filtered"] == {"neither": 0, "only_one": 0, "ties": 0}
    assert summary["direction_accuracy"] == 0.75
    assert summary["wins_by_speed"] == {"fast": 4}
    assert summary["wins_by_category"] == {"fast: IO_OPTIMIZATION": 4}
    assert summary["wins_by_difficulty"] == {"1": {"fast": 2}, "3": {"fast": 2}}
    assert {row["category"] for row in pq.read_table(output / "pairs.parquet").to_pylist()} == {"IO_OPTIMIZATION"}
    # At another address, it is the judge whose answers are there; another judge has given none.
    assert judged()[1] == 16
    assert judged("another")[1] == 32


def test_a_served_policy_judges_and_what_it_babbles_is_no_vote(tmp_path):
    """Random weights behind our own server; answers are stored, so that a second time needs no server."""
    output = tmp_path / "out"
    with served(data=dataclasses.replace(DATA, prompt_tokens=4096, completion_tokens=16)) as url:
        flags = [f"--records={_written(tmp_path)}", "--policy=fast", "--against=base", f"--endpoint={url}#tiny"]
        flags += [f"--output={output}", "--answers=2", "--tokens=16"]
        assert compare.main(flags) == 0
    answers = (output / "answers.jsonl").read_text()
    assert len(answers.splitlines()) == 8
    assert compare.main(flags) == 0
    assert (output / "answers.jsonl").read_text() == answers
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["pairs"], summary["classified"]) == (4, 0)
    assert {row["category"] for row in pq.read_table(output / "pairs.parquet").to_pylist()} == {""}


def test_the_best_human_is_a_side(tmp_path):
    study = compare.open_studies([_written(tmp_path)])[0]
    selection = pairwise.select_pairs(study, study.policies[1], None)
    assert {pair.names for pair in selection.pairs} == {("fast", pairwise.HUMAN)}
    assert all(pair.faster == 1 for pair in selection.pairs)


def test_an_unknown_policy_is_one_line(tmp_path, capsys):
    flags = [
        f"--records={_written(tmp_path)}",
        "--policy=nobody",
        "--against=human",
        "--endpoint=http://x",
        "--output=o",
    ]
    assert compare.main(flags) == 2
    assert "'nobody': expected one of base, fast, human" in capsys.readouterr().err


def _written(tmp_path):
    (tmp_path / "records").mkdir(exist_ok=True)
    records.write_evaluation(tmp_path / "records", planted.evaluation())
    return tmp_path / "records"
