"""Prompts from statements, and programs out of completions: the text border of the policy."""

import re
import typing
from collections.abc import Callable, Sequence

import numpy as np

from optimrl_jax.data import chat

# A fence with a language always opens a block: models forget to close the one before.
FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[^\n`]*\n"
    r"(?P<block>.*?)"
    r"(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|(?=^[ \t]*(?P=fence)\w)|\Z)",
    re.DOTALL | re.MULTILINE,
)
THINKING, THOUGHT = "<think>", "</think>"


class Encoder(typing.Protocol):
    """What prompts need of a tokenizer (`data.tokenizer.Tokenizer` has it)."""

    @property
    def end(self) -> int: ...

    @property
    def program(self) -> int: ...

    @property
    def template(self) -> chat.ChatTemplate | None: ...

    def encode(self, text: str) -> np.ndarray: ...


def encode_prompt(tokenizer: Encoder, statement: str) -> np.ndarray:
    """Return the token ids int32`[p]` of a statement and the marker after which a program is expected.

    A chat model is asked in its own template, the statement being what the user says.
    """
    if tokenizer.template:
        message = {"role": "user", "content": statement.strip()}
        return tokenizer.encode(tokenizer.template.render([message], asks=True))
    return np.append(tokenizer.encode(statement.strip()), np.int32(tokenizer.program))


def encode_completion(tokenizer: Encoder, program: str) -> np.ndarray:
    """Return the ids int32`[t]` of the completion that is this program, end included; a chat model fences it."""
    text = program.strip("\n") + "\n"
    fenced = f"```python\n{text}```" if tokenizer.template else text
    return np.append(tokenizer.encode(fenced), np.int32(tokenizer.end))


def extract_program(completion_text: str) -> str:
    """Return the final program of a completion: its last fenced code block, or all of it where nothing is fenced.

    Reasoning before the block is left out: first what stands before the last `</think>`, where there is one; a
    completion that was cut while still thinking has no program. A block that was never closed goes on to the next
    that opens with a language, or to the end of the text. Empty blocks do not count; an indented block loses the
    indentation of its fence.
    """
    text = completion_text.replace("\r\n", "\n")
    _, ended, answer = text.rpartition(THOUGHT)
    if not ended and text.lstrip().startswith(THINKING):
        return ""
    blocks = [_outdented(match["block"], match["indent"]) for match in FENCE.finditer(answer)]
    filled = [block for block in blocks if block.strip()]
    if filled:
        return filled[-1]
    if blocks:
        return ""
    return answer if ended else completion_text


def _outdented(block: str, indent: str) -> str:
    return re.sub(rf"^[ \t]{{1,{len(indent)}}}", "", block, flags=re.MULTILINE) if indent else block


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
