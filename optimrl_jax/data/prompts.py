"""Prompts from statements, and programs out of completions: the text border of the policy."""

import re
import typing

import numpy as np

FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


class Encoder(typing.Protocol):
    """What prompts need of a tokenizer (`data.tokenizer.Tokenizer` has it)."""

    end: int
    program: int

    def encode(self, text: str) -> np.ndarray: ...


def prompt(tokenizer: Encoder, statement: str) -> np.ndarray:
    """Token ids int32[p] of a statement and the marker after which a program is expected."""
    return np.append(tokenizer.encode(statement.strip()), np.int32(tokenizer.program))


def completion(tokenizer: Encoder, program: str) -> np.ndarray:
    """Token ids int32[t] of the completion that is exactly this program, end token included."""
    return np.append(tokenizer.encode(program.strip("\n") + "\n"), np.int32(tokenizer.end))


def program_of(completion_text: str) -> str:
    """The final program of a completion: its last fenced code block, or all of it where nothing is fenced.

    Reasoning before the block is left out. A block that was never closed, as in a completion cut at its token limit,
    goes on to the end of the text. Empty blocks do not count.
    """
    blocks = [match.group(1) for match in FENCE.finditer(completion_text.replace("\r\n", "\n"))]
    filled = [block for block in blocks if block.strip()]
    if filled:
        return filled[-1]
    return "" if blocks else completion_text
