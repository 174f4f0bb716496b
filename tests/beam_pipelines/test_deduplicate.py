"""Decontamination, near-duplicates and statement quality."""

import json
import tracemalloc

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from beam_pipelines import similarity
from beam_pipelines.records import Problem
from beam_pipelines.sources import evaluation_sets
from beam_pipelines.stages.deduplicate import EvaluationSet, broken_quality_rule, deduplicate, evaluation_set
from optimrl_jax.jobs.errors import UserError
from tests.beam_pipelines import planted

SENTENCE = "the cook lays n plates on a long table and counts the guests who sit at each end before the soup is cold"
WORDS = SENTENCE.split()


def text_of(draw, count):
    return " ".join(draw.choice(WORDS, count))


def jaccard(one, other):
    def triples(text):
        words = similarity.normalize_statement(text).split()
        return {tuple(words[n : n + 3]) for n in range(len(words) - 2)}

    return len(triples(one) & triples(other)) / len(triples(one) | triples(other))


def test_normalized_text_ignores_layout_case_marks_and_unicode_variants():
    assert similarity.normalize_statement("Print  the SUM,\n (ｎ ≤ 10)!") == similarity.normalize_statement(
        "print the sum n 10"
    )


def test_signatures_estimate_the_jaccard_similarity_of_word_triples():
    draw = np.random.default_rng(0)
    errors = []
    for _ in range(40):
        one = text_of(draw, 80)
        words = one.split()
        words[: int(draw.integers(0, 80))] = text_of(draw, 20).split()
        other = " ".join(words)
        estimate = similarity.jaccard_estimate(
            similarity.minhash_signature(one), similarity.minhash_signature(other)[None]
        )[0]
        errors.append(estimate - jaccard(one, other))
    assert np.sqrt(np.mean(np.square(errors))) < 0.06, "the standard error at 128 places is at most 0.045"
    assert abs(np.mean(errors)) < 0.03


def test_groups_hold_near_duplicates_and_nothing_else():
    draw = np.random.default_rng(1)
    long_text = text_of(draw, 120)
    statements = {f"other{n}": text_of(draw, 120) for n in range(30)}
    statements |= {"b": long_text, "a": long_text + " please", "c": "Hello! " + long_text.upper()}
    assert similarity.near_duplicate_groups(statements) == {"a": "a", "b": "a", "c": "a"}
    assert similarity.near_duplicate_groups({}) == {}


def test_only_equal_texts_are_duplicates_at_similarity_one():
    draw = np.random.default_rng(2)
    text = text_of(draw, 60)
    assert similarity.near_duplicate_groups({"a": text, "b": text + " more", "c": text + "!"}, similar=1.0) == {
        "a": "a",
        "c": "a",
    }


def test_a_problem_of_an_evaluation_set_goes():
    draw = np.random.default_rng(3)
    known, fresh = text_of(draw, 90), text_of(draw, 90)
    held_out = evaluation_set({"bench/7": known})

    def outcome(statement):
        return deduplicate(planted.problem(statement=statement), held_out=held_out)

    assert (outcome(known.title()).reason, outcome(known.title()).detail) == ("evaluation_duplicate", "bench/7")
    assert outcome(known + " in the end").reason == "evaluation_near_duplicate"
    assert isinstance(outcome(fresh), Problem)
    assert isinstance(deduplicate(planted.problem(statement=known), held_out=EvaluationSet()), Problem)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("  \n!", "statement_missing"),
        ("Print it.", "statement_too_short"),
        ("Read the numbers and print their s\ufffdm today.", "statement_garbled"),
        ("Read the numbers and print\x00 their sum.", "statement_garbled"),
        ("Look at <image> and print what the ![a](b) shows.", "statement_needs_pictures"),
        ("Read n and n numbers. Print their sum.", ""),
        ("Read n where <image> holds. " + "Print the sum of the numbers that follow it. " * 6, ""),
    ],
)
def test_statements_that_cannot_be_understood_have_a_reason(statement, reason):
    assert broken_quality_rule(statement) == reason


def test_evaluation_sets_are_read_from_json_lines(tmp_path):
    file = tmp_path / "bench.jsonl"
    file.write_text(json.dumps({"question_id": "q1", "question_content": "Add."}) + "\n" + json.dumps({"text": "Sub."}))
    assert evaluation_sets.read_evaluation_sets(str(file)) == {"bench.jsonl/q1": "Add.", "bench.jsonl:2": "Sub."}
    assert evaluation_sets.read_evaluation_sets("") == {}


def test_of_a_large_evaluation_set_a_part_at_a_time_is_in_memory(tmp_path):
    rows = [{"question": f"Add {n}.", "private_test_cases": f"{n}" * (1 << 18)} for n in range(10, 74)]
    path = tmp_path / "bench.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=4)
    tracemalloc.start()
    try:
        found = evaluation_sets.read_evaluation_sets(str(path))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 64
    assert peak_bytes < 16 << 20, "the whole file holds 32 MiB of hidden tests"


@pytest.mark.parametrize("text", ["{", '{"id": 1}'])
def test_a_broken_evaluation_set_is_one_line(tmp_path, text):
    (tmp_path / "bench.jsonl").write_text(text)
    with pytest.raises(UserError, match=r"--evaluation_sets = .*: expected|record 0: expected one of"):
        evaluation_sets.read_evaluation_sets(str(tmp_path / "bench.jsonl"))
