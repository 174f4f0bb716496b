"""Prompts from statements, and programs out of completions: the border of the policy where tokens are text.

Pure; between the records of a dataset and the sampler, and between the sampler and the sandbox.
"""

from collections.abc import Callable, Sequence

import numpy as np

from optimrl_jax.data import tokenizer as tokenizer_lib
from optimrl_jax.data.answers import program_of
from optimrl_jax.jobs.user_code import load_function
from optimrl_jax.settings import DataSettings

# Tokens at the end of a prompt that say whether its template has opened the reasoning.
PROMPT_END = 32


def encode_prompt(tokenizer: tokenizer_lib.Tokenizer, statement: str, data: DataSettings | None = None) -> np.ndarray:
    """Return the token ids int32`[p]` of a statement and the marker after which a program is expected.

    A chat model is asked in its own template, in the words of `data`; without these the statement is all that the user
    says. Other models read the statement, or what `data.prompt_function` makes of it.
    """
    text = statement.strip()
    if data and data.prompt_function:
        text = load_function(data.prompt_function, "data.prompt_function")(text)
    elif data and data.instruction and tokenizer.template:
        text = data.instruction.replace("{statement}", text)
    if tokenizer.template:
        system = [{"role": "system", "content": data.system}] if data and data.system else []
        return tokenizer.encode(tokenizer.template.render([*system, {"role": "user", "content": text}], asks=True))
    return np.append(tokenizer.encode(text), np.int32(tokenizer.program))


def encode_completion(tokenizer: tokenizer_lib.Tokenizer, program: str) -> np.ndarray:
    """Return the ids int32`[t]` of the completion that is this program, end included; a chat model fences it."""
    text = program.strip("\n") + "\n"
    fenced = f"```python\n{text}```" if tokenizer.template else text
    return np.append(tokenizer.encode(fenced), np.int32(tokenizer.end))


def sampled_program(
    tokenizer: tokenizer_lib.Tokenizer,
    prompt_ids: np.ndarray,
    sampled_ids: np.ndarray,
    data: DataSettings | None = None,
) -> str:
    """Return the program in a completion as it was sampled, see `answers.program_of`; or what the user's function says.

    Tags of reasoning count whether they are special tokens or text, and whether the completion or the end of the prompt
    opens them; other special tokens are no part of a program.

    Args:
      tokenizer: of the policy.
      prompt_ids: int32`[p]`.
      sampled_ids: int32`[t]`, without padding.
      data: names the user's function, where there is one (`data.answer_function`).
    """
    if data and data.answer_function:
        text = tokenizer.decode(sampled_ids, keeps_reasoning_tags=True)
        return load_function(data.answer_function, "data.answer_function")(text)
    prompt = tokenizer.decode(prompt_ids[-PROMPT_END:], keeps_reasoning_tags=True)
    return program_of(tokenizer.decode(sampled_ids, keeps_reasoning_tags=True), prompt=prompt)


def stop_length(
    tokens: np.ndarray, checked: int = 0, *, stops: Sequence[str], decode: Callable[[np.ndarray], str]
) -> int | None:
    """Return the length, beyond `checked`, of the shortest beginning with one of `stops` in it; None where none is.

    The token that completes the stop string counts. `stops` holds at least one text, and none is empty. Looks no
    further back than a stop string has bytes, since a token of text has at least one: special tokens, which decode to
    nothing, within a stop string may hide it. The result is the same whether a completion is looked through at once or
    piece by piece.
    """
    reach = max(len(stop.encode()) for stop in stops)

    def contains(start: int, end: int) -> bool:
        text = decode(tokens[max(0, start - reach) : end])
        return any(stop in text for stop in stops)

    if not contains(checked, len(tokens)):
        return None
    return next((end for end in range(checked + 1, len(tokens) + 1) if contains(end, end)), None)
