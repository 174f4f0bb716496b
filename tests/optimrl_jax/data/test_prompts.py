"""Prompts end in the program marker; the last program of a completion is found; stop strings end a completion."""

import numpy as np
import pytest

from optimrl_jax.data import prompts, tokenizer

TOKENIZER = tokenizer.train_tokenizer(["print(1)\n```\n", "print(2)\n"], 300)
TRAINED = tokenizer.train_tokenizer(["Read n. Print it.\n", "print(input())\n"], 300)


def test_prompt_and_completion_are_closed_by_their_markers():
    ids = prompts.encode_prompt(TRAINED, "  Read n.\n")
    assert ids[-1] == TRAINED.program
    assert TRAINED.decode(ids) == "Read n."
    ids = prompts.encode_completion(TRAINED, "\nprint(input())")
    assert ids[-1] == TRAINED.end
    assert prompts.sampled_program(TRAINED, ids[:0], ids) == "print(input())\n"


def length_of(text: str, *wanted: str, checked: int = 0) -> int | None:
    return prompts.stop_length(TOKENIZER.encode(text), checked, stops=wanted, decode=TOKENIZER.decode)


def beginning(text: str, length: int) -> str:
    return TOKENIZER.decode(TOKENIZER.encode(text)[:length])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("abc ``` x", ("```",)), ("one two three", ("two", "on")), ("Grüße, Welt", ("ß",)), ("a日本b", ("本", "zz"))],
)
def test_a_completion_ends_with_the_token_that_completes_the_stop_string(text, wanted):
    length = length_of(text, *wanted)
    assert any(stop in beginning(text, length) for stop in wanted)
    assert not any(stop in beginning(text, length - 1) for stop in wanted)


def test_text_without_a_stop_string_goes_on():
    assert length_of("no such thing", "```") is None
    assert length_of("``", "```") is None
    assert length_of("", "```") is None


def test_looking_piece_by_piece_finds_the_same_length():
    draw = np.random.default_rng(0)
    for _ in range(50):
        tokens = draw.integers(3, 200, 40)
        text = TOKENIZER.decode(tokens)
        start = int(draw.integers(0, len(text) - 3))
        stop = text[start : start + 3].strip("�") or "x"
        expected = prompts.stop_length(tokens, stops=(stop,), decode=TOKENIZER.decode)
        size = int(draw.integers(1, 9))
        pieces = ((checked, tokens[: checked + size]) for checked in range(0, 40, size))
        found = (prompts.stop_length(seen, checked, stops=(stop,), decode=TOKENIZER.decode) for checked, seen in pieces)
        assert next((length for length in found if length is not None), None) == expected
