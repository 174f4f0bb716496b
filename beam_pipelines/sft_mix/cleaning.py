"""Edge: takes conversations out of a mix that hold a statement of an evaluation set, word for word or nearly."""

import json
import pathlib
import typing
from collections.abc import Iterator

from beam_pipelines import similarity
from beam_pipelines.stages.deduplicate import EvaluationSet
from optimrl_jax.jobs.errors import UserError


def clean_mix(mix: pathlib.Path, output: pathlib.Path, *, held_out: EvaluationSet, similar: float) -> tuple[int, int]:
    """Write the conversations that hold no held-out statement; the output is whole or absent.

    Args:
      mix: JSON Lines with `messages`.
      output: of the kept lines, as they are; beside it `.removed.jsonl` with line, evaluation record and similarity.
      held_out: statements that must not be learned.
      similar: estimated Jaccard similarity from which two texts are the same.

    Returns:
      Numbers of kept and removed conversations.

    Raises:
      UserError: naming a line that is no conversation.
    """
    partial, removed_path = output.with_name(f"{output.name}.partial"), output.with_name(f"{output.name}.removed.jsonl")
    kept, removed = 0, []
    with mix.open(encoding="utf-8") as lines, partial.open("w", encoding="utf-8") as file:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            found = [
                match
                for text in _asked(line, f"{mix}, line {number}")
                if (match := find_statement(text, held_out, similar=similar))
            ]
            if found:
                name, share = max(found, key=lambda match: match[1])
                removed.append({"line": number, "evaluation": name, "similarity": share})
            else:
                kept += 1
                file.write(line if line.endswith("\n") else f"{line}\n")
    removed_path.write_text("".join(f"{json.dumps(one)}\n" for one in removed))
    partial.replace(output)
    return kept, len(removed)


def find_statement(text: str, held_out: EvaluationSet, *, similar: float) -> tuple[str, float] | None:
    """Find the held-out statement that a text is, or contains word for word.

    Args:
      text: of a message.
      held_out: statements.
      similar: estimated Jaccard similarity from which two texts are the same.

    Returns:
      (name of the statement, similarity; 1 where it is contained); None where there is none.
    """
    words = f" {similarity.normalize_statement(text)} "
    for name, statement in zip(held_out.names, held_out.texts, strict=True):
        # Instructions around a statement do not make it another one.
        if statement and f" {statement} " in words:
            return name, 1.0
    alike = similarity.jaccard_estimate(similarity.minhash_signature(text), held_out.signatures)
    closest = int(alike.argmax())
    return (held_out.names[closest], float(alike[closest])) if alike[closest] >= similar else None


def _asked(line: str, place: str) -> Iterator[str]:
    """Yield the texts of the user's messages of a conversation."""
    try:
        messages: list[dict[str, typing.Any]] = json.loads(line)["messages"]
        texts = [message["content"] for message in messages if message["role"] == "user"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{place}: expected a conversation with `messages` ({error})") from None
    yield from (text for text in texts if isinstance(text, str))
