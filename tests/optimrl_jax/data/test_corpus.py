"""What an SFT job learns from: prompts as they are sampled from, mixes, and settings that contradict each other."""

import dataclasses

import numpy as np
import pytest

from optimrl_jax.data import dataset, prompts, tokenizer
from optimrl_jax.data.corpus import corpus_of_dataset, corpus_of_mix, sft_microbatches
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.errors import SettingsError, UserError
from optimrl_jax.settings import Settings
from tests.optimrl_jax import records
from tests.optimrl_jax.data import conversations

ASKED = {"directory": "here", "instruction": "Be fast.\n{statement}", "system": "Answer in Python."}


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


@pytest.fixture(name="problem")
def _problem(tmp_path, monkeypatch):
    """A dataset of one problem with one program, in the directory `here`."""
    record = records.record()
    record = dataclasses.replace(record, reference_program=("print(1)",), reference_id=("first",))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dataset, "load_records", lambda directory, split, field="": [record])
    return record


@pytest.mark.parametrize("is_chat", [False, True])
@pytest.mark.parametrize("mix", [[], [["here", 1.0]], [["here:rl_test", 1.0]]])
def test_a_program_is_learned_behind_the_prompt_that_is_sampled_from(tmp_path, problem, mix, is_chat):
    given = str(conversations.tokenizer_files(tmp_path / "model")) if is_chat else ""
    data = ASKED | {"prompt_tokens": 256, "completion_tokens": 64, "row_tokens": 512}
    sft = {"mix": mix, "batch": 1, "tokenizer": given}
    settings = freeze(Settings, {"model": {"vocabulary": 320}, "data": data, "sft": sft})
    found = (corpus_of_mix if mix else corpus_of_dataset)(tmp_path, settings)
    (example,) = found.encode(next(found.stream)).examples
    own = tokenizer.load_tokenizer(tmp_path)
    asked = prompts.encode_prompt(own, problem.statement, settings.data)
    assert ("Be fast." in own.decode(asked)) == is_chat
    np.testing.assert_array_equal(example.tokens[: len(asked)], asked)
    answered = prompts.encode_completion(own, "print(1)")
    np.testing.assert_array_equal(example.tokens[example.weight == 1], answered)
    np.testing.assert_array_equal(example.tokens[len(asked) :][: len(answered)], answered)


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
