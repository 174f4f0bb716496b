"""Prompts from statements, and programs out of completions: the border of the policy where tokens are text.

Pure; between the records of a dataset and the sampler, and between the sampler and the sandbox.
"""

from collections.abc import Callable, Sequence

import numpy as np

from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.data.answers import program_of
from optimrl_jax.data.chat import Message
from optimrl_jax.jobs.user_code import function_identity, load_function
from optimrl_jax.settings import DataSettings

# Tokens at the end of a prompt that say whether its template has opened the reasoning.
PROMPT_END = 32


def text_facts(data: DataSettings) -> dict[str, object]:
    """Collect what decides the text of prompts and programs, as plain data: another value means other rollouts.

    Functions of the user count with the content of their file.
    """
    facts = {name: getattr(data, name) for name in ("prompt_tokens", "completion_tokens", "system", "instruction")}
    functions = {name: function_identity(getattr(data, name)) for name in ("prompt_function", "answer_function")}
    return facts | functions | {"stop": list(data.stop)}


def encode_prompt(tokenizer: tokenizer_lib.Tokenizer, statement: str, data: DataSettings | None = None) -> np.ndarray:
    """Encode a statement as the prompt after which a program is expected.

    A chat model is asked in its own template, in the words of `data`; without these the statement is all that the user
    says. Other models read the statement and then the program marker. `data.prompt_function` takes the place of the
    instruction, and rewrites the statement for either kind of model.

    Args:
      tokenizer: of the policy.
      statement: text of the problem; space around it is dropped.
      data: instruction, system message and prompt function, where there are any.

    Returns:
      int32`[p]` token ids.
    """
    messages = question(statement, data, is_chat=tokenizer.template is not None)
    if tokenizer.template:
        return tokenizer.encode(tokenizer.template.render(messages, asks=True))
    return np.append(tokenizer.encode(messages[-1]["content"]), np.int32(tokenizer.program))


def question(statement: str, data: DataSettings | None = None, *, is_chat: bool) -> list[Message]:
    """Return what is said to a policy before its program, as messages; a model without a template reads the last alone.

    Args:
      statement: text of the problem; space around it is dropped.
      data: instruction, system message and prompt function, where there are any.
      is_chat: the policy has a chat template.
    """
    text = statement.strip()
    if data and data.prompt_function:
        text = load_function(data.prompt_function, "data.prompt_function")(text)
    elif data and data.instruction and is_chat:
        text = data.instruction.replace("{statement}", text)
    system = [{"role": "system", "content": data.system}] if data and data.system and is_chat else []
    return [*system, {"role": "user", "content": text}]


def answer(program: str, *, is_chat: bool) -> str:
    """Return the words of the completion that is this program: a chat model puts it into a code fence."""
    text = program.strip("\n") + "\n"
    return f"```python\n{text}```" if is_chat else text


def encode_completion(tokenizer: tokenizer_lib.Tokenizer, program: str) -> np.ndarray:
    """Encode the completion that is this program, end token included; a chat model puts it into a code fence.

    Args:
      tokenizer: of the policy.
      program: Python code.

    Returns:
      int32`[t]` token ids.
    """
    text = answer(program, is_chat=tokenizer.template is not None)
    return np.append(tokenizer.encode(text), np.int32(tokenizer.end))


def sampled_program(
    tokenizer: tokenizer_lib.Tokenizer,
    prompt_ids: np.ndarray,
    sampled_ids: np.ndarray,
    data: DataSettings | None = None,
) -> str:
    """Extract the program from a completion as it was sampled (`answers.program_of`, or the user's own function).

    Tags of reasoning count whether they are special tokens or text, and whether the completion or the end of the prompt
    opens them; other special tokens are no part of a program.

    Args:
      tokenizer: of the policy.
      prompt_ids: int32`[p]`.
      sampled_ids: int32`[t]`, without padding.
      data: names the user's function, where there is one (`data.answer_function`).

    Returns:
      The program; empty where the completion has none.
    """
    prompt = tokenizer.decode(prompt_ids[-PROMPT_END:], keeps_reasoning_tags=True)
    return program_in(tokenizer.decode(sampled_ids, keeps_reasoning_tags=True), data, prompt=prompt)


def program_in(text: str, data: DataSettings | None = None, *, prompt: str | None = None) -> str:
    """Extract the program from the text of a completion, as `sampled_program` does.

    Args:
      text: of the completion.
      data: names the user's function, where there is one (`data.answer_function`).
      prompt: what stood before it, whose end may open the reasoning; None where nobody knows.
    """
    if data and data.answer_function:
        return load_function(data.answer_function, "data.answer_function")(text)
    return program_of(text, prompt=prompt)


def stop_length(
    tokens: np.ndarray, checked: int = 0, *, stops: Sequence[str], decode: Callable[[np.ndarray], str]
) -> int | None:
    """Return the length of the shortest beginning of a completion that contains a stop text; None where there is none.

    The token that completes the stop text counts. Looks no further back than a stop text has bytes, since a token of
    text has at least one: special tokens, which decode to nothing, within a stop text may hide it. The result is the
    same whether a completion is searched at once or piece by piece.

    Args:
      tokens: int32`[t]` sampled so far.
      checked: length up to which the completion was searched before; the result is greater.
      stops: at least one text, none of them empty.
      decode: turns token ids into text.
    """
    reach = max(len(stop.encode()) for stop in stops)

    def contains(start: int, end: int) -> bool:
        text = decode(tokens[max(0, start - reach) : end])
        return any(stop in text for stop in stops)

    if not contains(checked, len(tokens)):
        return None
    return next((end for end in range(checked + 1, len(tokens) + 1) if contains(end, end)), None)
