"""Chat templates: what is rendered, what is trained, and what is refused."""

import numpy as np
import pytest

from optimrl_jax.data import chat, prompts, tokenizer
from optimrl_jax.data.answers import program_of
from optimrl_jax.jobs.errors import UserError
from tests.optimrl_jax.data import conversations

TEMPLATE = chat.chat_template_of({"chat_template": conversations.CHATML, "eos_token": {"content": "<|endoftext|>"}})
TURNS = [
    *conversations.conversation("Read n.", "print(1)"),
    *conversations.conversation("Faster.", "<think>a</think>2"),
]


def template(source, **special):
    return chat.chat_template_of({"chat_template": source, **special})


def test_only_what_the_assistant_says_is_trained_up_to_the_end_of_its_turn():
    pieces = chat.trained_spans(TEMPLATE, TURNS)
    assert [text for text, is_trained in pieces if is_trained] == ["print(1)<|im_end|>", "<think>a</think>2<|im_end|>"]
    assert "".join(text for text, _ in pieces) == TEMPLATE.render(TURNS, asks=False)
    assert pieces[0] == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nRead n.<|im_end|>\n<|im_start|>assistant\n",
        False,
    )


def test_weights_stand_at_the_tokens_of_the_trained_pieces(tmp_path):
    own = tokenizer.load_tokenizer(conversations.tokenizer_files(tmp_path))
    example = chat.encode_conversation(own.template, TURNS, tokenize=own.encode)
    assert example.tokens.shape == example.weight.shape
    trained = example.tokens[example.weight == 1]
    assert own.decode(trained) == "print(1)<think>a</think>2"
    assert (trained == own.end).sum() == 2
    assert own.model.id_to_token(own.end) == "<|im_end|>"
    # Special tokens of the template are one token each: 2 system, 2 x 2 user, 2 x 2 assistant.
    assert np.isin(example.tokens, [own.model.token_to_id(name) for name in conversations.SPECIAL]).sum() == 10


def test_prompt_and_completion_of_a_chat_model_are_its_example(tmp_path):
    own = tokenizer.load_tokenizer(conversations.tokenizer_files(tmp_path))
    fenced = "```python\nprint(1)\n```"
    example = chat.encode_conversation(own.template, conversations.conversation("Read n.", fenced), tokenize=own.encode)
    prompt, completion = prompts.encode_prompt(own, " Read n.\n"), prompts.encode_completion(own, "print(1)")
    length = len(prompt) + len(completion)
    np.testing.assert_array_equal(example.tokens[:length], np.concatenate([prompt, completion]))
    assert (example.weight[:length] == np.repeat([0, 1], [len(prompt), len(completion)])).all()
    assert not example.weight[length:].any()
    assert program_of(own.decode(completion)) == "print(1)\n"


def test_a_saved_chat_tokenizer_comes_back(tmp_path):
    own = tokenizer.load_tokenizer(conversations.tokenizer_files(tmp_path / "model"))
    (tmp_path / "job").mkdir()
    own.save(tmp_path / "job")
    back = tokenizer.load_tokenizer(tmp_path / "job")
    assert (back.template, back.end, back.pad, back.size) == (own.template, own.end, own.pad, own.size)


def test_a_template_in_a_file_of_its_own_or_in_a_list_is_found(tmp_path):
    directory = conversations.tokenizer_files(tmp_path)
    (directory / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}")
    found = tokenizer.load_tokenizer(directory).template
    assert found.render(conversations.conversation("a", "b"), asks=False) == "a<|endoftext|>b<|endoftext|>"
    several = [{"name": "tools", "template": "x"}, {"name": "default", "template": "y"}]
    assert chat.chat_template_of({"chat_template": several}).source == "y"


def test_what_templates_use_is_there():
    source = (
        "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}"
        "{% generation %}{{ {'é<': m.content} | tojson }}{{ eos_token }}{% endgeneration %}\n{% endfor %}"
    )
    rendered = template(source, eos_token="</s>").render(conversations.conversation("a", "b"), asks=False)
    assert rendered == '{"é<": "b"}</s>'
    assert chat.end_of_turn(template("{{ messages[1].content }}", eos_token="</s>")) == "</s>"


WRONG_TEMPLATES = [
    ("{{ raise_exception('no system role') }}", "chat template: no system role"),
    ("{{ messages.clear() }}", "chat template: "),
    ("{{ ''.__class__.__mro__ }}", "chat template: "),
    (
        "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}A:{% endif %}",
        "its own generation",
    ),
    ("{% for m in messages %}{{ m.content if loop.last else '' }}{% endfor %}", "its own generation"),
]


@pytest.mark.parametrize(("source", "message"), WRONG_TEMPLATES)
def test_a_template_that_cannot_serve_is_refused(source, message):
    with pytest.raises(ValueError, match=message):
        chat.trained_spans(template(source), TURNS)


def test_a_template_that_drops_earlier_reasoning_is_refused_for_several_turns_only():
    source = (
        "{% for m in messages %}{{ m.role }}:"
        "{{ m.content if loop.last or m.role == 'user' else m.content.split('</think>')[-1] }}.{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    thinking = conversations.conversation("a", "<think>b</think>c")
    assert chat.trained_spans(template(source), thinking)[-1] == ("<think>b</think>c.", True)
    with pytest.raises(ValueError, match="leaves earlier turns as they were"):
        chat.trained_spans(template(source), [*thinking, *thinking])


WRONG_MESSAGES = [
    ([], "an object with a list of messages"),
    ({"messages": "hello"}, "an object with a list of messages"),
    ({"messages": []}, "end with the assistant's"),
    ({"messages": [{"role": "user", "content": "a"}]}, "end with the assistant's"),
    ({"messages": [{"role": "human", "content": "a"}]}, "a role among system, user, assistant, tool"),
    ({"messages": [{"role": "assistant", "content": None}]}, "a text as the content of the assistant"),
]


@pytest.mark.parametrize(("value", "message"), WRONG_MESSAGES)
def test_messages_that_are_no_conversation_are_refused(value, message):
    with pytest.raises(ValueError, match=message):
        chat.require_messages(value)


WRONG_FILES = [
    ({"chat_template": None}, "expected a chat_template"),
    ({"chat_template": "{% if %}"}, "chat template: "),
    ({"chat_template": "{{ messages[1].content }}<|no such token|>"}, "one token that ends a turn"),
]


@pytest.mark.parametrize(("config", "message"), WRONG_FILES)
def test_tokenizer_files_without_a_usable_template_are_one_line(config, message, tmp_path):
    directory = conversations.tokenizer_files(tmp_path, **config)
    with pytest.raises(UserError, match=message):
        tokenizer.load_tokenizer(directory)
