"""Planted faults: each is caught at its stage with its reason, and nothing valid is lost."""

import json
from collections import Counter

import pytest

from tests.beam_pipelines import faults, planted
from tests.beam_pipelines.corpora import read_rows, run_quietly, write_corpus

# A second problem under an id that is taken.
SECOND = "Read n and n numbers of a second kind. Print what they make together."
FLAGS = ("--source=jsonl", "--calls=2", "--repeats=1", "--limit_s=0.5", "--min_robust_cv=0", "--test_share=0.5")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("faults")
    corpus = write_corpus(root / "corpus.jsonl", [one.problem for one in (*faults.rejected(), *faults.mended())])
    with corpus.open("a") as lines:
        lines.write("{broken\n")
        lines.write(json.dumps(planted.as_object(planted.problem("sound", statement=SECOND))) + "\n")
    held = root / "held.jsonl"
    held.write_text("".join(json.dumps({"id": k, "statement": v}) + "\n" for k, v in faults.EVALUATION.items()))
    output = root / "dataset"
    run_quietly(*FLAGS, f"--input={corpus}", f"--evaluation_sets={held}", f"--output={output}")
    return output


@pytest.fixture(scope="module")
def traces(built):
    lines = [json.loads(line) for line in (built / "traces.jsonl").read_text().splitlines()]
    (repeated,) = [line for line in lines if line.get("reason") == "repeated_id"]
    assert repeated["id"] == "planted/sound"
    lines.remove(repeated)
    return {line["id"]: line for line in lines}


def test_every_fault_is_caught_at_its_stage_with_its_reason_and_nothing_else_is(traces):
    expected = {one.problem.id: (one.stage, one.reason) for one in faults.rejected()}
    expected["corpus.jsonl:33"] = ("read", "not_json")
    found = {name: (line["rejected_by"], line["reason"]) for name, line in traces.items() if "reason" in line}
    planted_at, caught_at = (
        Counter(stage for stage, _ in expected.values()),
        Counter(stage for stage, _ in found.values()),
    )
    right = Counter(stage for name, (stage, reason) in found.items() if expected.get(name) == (stage, reason))
    for stage in sorted(planted_at | caught_at):
        recall = right[stage] / planted_at[stage] if planted_at[stage] else 0.0
        precision = right[stage] / caught_at[stage] if caught_at[stage] else 0.0
        print(f"{stage}: recall {recall:.0%}, precision {precision:.0%} of {planted_at[stage]} planted faults")
    assert found == expected


def test_what_can_be_mended_is_kept_with_all_its_sound_solutions(built):
    kept = read_rows(built)
    assert set(kept) == {one.problem.id for one in faults.mended()}
    for one in faults.mended():
        assert len(kept[one.problem.id]["reference_id"]) == one.correct_left, one.fault
        assert len(kept[one.problem.id]["incorrect_program"]) == 0, "no training data"


def test_a_kept_problem_whose_statement_accepts_any_answer_is_named(built):
    summary = json.loads((built / "summary.json").read_text())
    assert summary["may_need_checker"] == ["planted/bom"], "the one that a program judges needs no other checker"


def test_invalid_and_slow_generated_tests_are_gone(built):
    kept = read_rows(built)
    added = {name: row["test_input"][row["test_kind"] == 1] for name, row in kept.items()}
    assert b"0\n\n" not in added["planted/invalid_edge"]
    assert len(added["planted/invalid_edge"]) == 4
    assert not any(text.startswith(b"1000\n") for text in added["planted/slow_edge"])
    assert len(added["planted/slow_edge"]) == 4


def test_an_optimization_test_on_which_some_time_out_stays_with_its_timeouts(built):
    row = read_rows(built)["planted/slow_edge"]
    slow = [k for k, text in enumerate(row["test_input"]) if text.startswith(b"1000\n")]
    assert [int(row["test_kind"][k]) for k in slow] == [2]
    assert (row["status"][slow[0]] == 1).sum() == 3
    assert set(row["duration_s"][slow[0]][row["status"][slow[0]] == 1].tolist()) == {0.5}


def test_problems_with_one_statement_are_in_one_split(built):
    assert {"planted/twin_a", "planted/twin_b"} <= set(read_rows(built, "rl_train")) or {
        "planted/twin_a",
        "planted/twin_b",
    } <= set(read_rows(built, "rl_test"))


def test_generated_tests_expose_the_incorrect_solutions_that_original_tests_let_through(traces):
    (step,) = [s for s in traces["planted/one_mislabeled"]["trace"] if s["stage"] == "generate_correctness"]
    rates = dict(step["notes"])
    assert rates["correct_pass_rate_before"] == 1
    assert rates["correct_pass_rate_generated"] == pytest.approx(6 / 7)


def test_the_corpus_of_faults_names_each_problem_once():
    names = [one.problem.id for one in (*faults.rejected(), *faults.mended())]
    assert len(names) == len(set(names)) == 32
    assert planted.problem().id not in names
