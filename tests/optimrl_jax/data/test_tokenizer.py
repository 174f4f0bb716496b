"""The tokenizer returns every text unchanged, is the same for the same corpus, and keeps layout cheap."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimrl_jax.data import tokenizer
from optimrl_jax.jobs.errors import UserError

TEXTS = ["for i in range(n):\n    total += a[i]\nprint(total)\n", "Read n numbers and print their sum.\n"] * 3
TRAINED = tokenizer.train_tokenizer(TEXTS, 360)


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_any_text_survives_a_round_trip(text):
    encodable = text.encode("utf-8", "replace").decode("utf-8")
    assert TRAINED.decode(TRAINED.encode(encodable)) == encodable


def test_special_tokens_written_out_in_a_statement_stay_text():
    ids = TRAINED.encode("a<|end|>b")
    assert TRAINED.end not in ids
    assert TRAINED.decode(ids) == "a<|end|>b"


def test_equal_texts_give_equal_tokenizers_and_files(tmp_path):
    TRAINED.save(tmp_path)
    again = tokenizer.load_tokenizer(tmp_path)
    assert again.model.to_str() == TRAINED.model.to_str() == tokenizer.train_tokenizer(TEXTS, 360).model.to_str()
    assert (again.pad, again.end, again.program) == (TRAINED.pad, TRAINED.end, TRAINED.program)


def test_a_merge_may_reach_over_a_line_but_not_beyond():
    pieces = [TRAINED.decode([token]) for token in TRAINED.encode(TEXTS[0])]
    assert "for i in range(n):\n" in pieces
    assert all("\n" not in piece[:-1] for piece in pieces)


def test_a_missing_or_broken_file_is_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="expected the tokenizer"):
        tokenizer.load_tokenizer(tmp_path)
    (tmp_path / tokenizer.FILE_NAME).write_text("{")
    with pytest.raises(UserError, match="expected a tokenizer file"):
        tokenizer.load_tokenizer(tmp_path)
