"""What an SFT job learns from: the tokenizer that goes with a mix, and settings that contradict each other."""

import pytest

from optimrl_jax.data import tokenizer
from optimrl_jax.data.corpus import corpus_of_dataset, corpus_of_mix, sft_microbatches
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.settings import Settings
from tests.optimrl_jax.data import conversations


def chosen(tmp_path, *, vocabulary=320, **sft):
    path = conversations.jsonl(
        tmp_path / "mix.jsonl", [conversations.conversation("Read n.", f"print({n})") for n in range(9)]
    )
    recipe = {"mix": [[str(path), 1.0]], "batch": 4} | sft
    return freeze(Settings, {"model": {"vocabulary": vocabulary}, "data": {"row_tokens": 128}, "sft": recipe})


def test_the_tokenizer_of_a_model_goes_with_the_policy(tmp_path):
    files = conversations.tokenizer_files(tmp_path / "model")
    found = corpus_of_mix(tmp_path, chosen(tmp_path, tokenizer=str(files)))
    own = tokenizer.load_tokenizer(tmp_path)
    assert found.vocabulary == 320 > own.size
    step = found.encode(next(found.stream))
    assert (len(step.examples), step.left_out) == (4, 0)
    assert all(own.decode(one.tokens[one.weight == 1]).startswith("print(") for one in step.examples)
    with pytest.raises(SettingsError, match=rf"expected room for the {own.size} of sft.tokenizer"):
        corpus_of_mix(tmp_path, chosen(tmp_path, tokenizer=str(files), vocabulary=own.size - 1))


def test_without_one_a_tokenizer_is_trained_and_only_the_answer_counts(tmp_path):
    found = corpus_of_mix(tmp_path, chosen(tmp_path))
    own = tokenizer.load_tokenizer(tmp_path)
    assert found.vocabulary == own.size
    example = next(found.stream).examples[0]
    assert own.decode(example.tokens[example.weight == 0]) == "Read n."
    assert example.tokens[-1] == own.end


def test_an_example_that_the_template_refuses_is_named(tmp_path):
    files = conversations.tokenizer_files(tmp_path / "model")
    settings = chosen(tmp_path, tokenizer=str(files), batch=16)
    template = "{% if messages[0].content == 'no' %}{{ raise_exception('refused') }}{% endif %}" + conversations.CHATML
    (files / "chat_template.jinja").write_text(template)
    mix = [conversations.conversation(asked, "print(1)") for asked in ("yes", "no")]
    conversations.jsonl(tmp_path / "mix.jsonl", mix)
    with pytest.raises(UserError, match=r"mix.jsonl, line 2: chat template: refused"):
        next(corpus_of_mix(tmp_path, settings).stream)


def test_budgets_that_cannot_be_kept_are_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"sft.batch_tokens = 100: expected data.row_tokens for each process"):
        corpus_of_mix(tmp_path, chosen(tmp_path, batch_tokens=100))
    with pytest.raises(SettingsError, match=r"sft.batch_tokens = 200: expected 0 without sft.mix"):
        corpus_of_dataset(tmp_path, chosen(tmp_path, batch_tokens=200, mix=[]))


def test_a_budget_bounds_the_microbatches():
    # 1,000 tokens in rows of 128 that are more than half full, but one: at most 17 rows, so 3 microbatches of 8.
    own = freeze(Settings, {"data": {"row_tokens": 128}, "sft": {"mix": [["m.jsonl", 1.0]], "batch_tokens": 1000}})
    assert sft_microbatches(own) == 3
    assert sft_microbatches(own, processes=2) == 3
