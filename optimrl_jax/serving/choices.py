"""What becomes of the tokens of a completion: choices with text, reason and log-probabilities, whole or in pieces.

Pure. The two kinds of requests differ in how a choice looks (`CHAT`, `TEXT`) and in nothing else.
"""

import dataclasses
import typing
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from optimrl_jax.data.tokenizer import Tokenizer
from optimrl_jax.serving.engine import Completion, SampledToken
from optimrl_jax.serving.text_stream import TextStream


@dataclasses.dataclass(frozen=True)
class Piece:
    """Text that will not change any more, with its tokens.

    Attributes:
      text: what became final since the previous piece; may be empty.
      tokens: those sampled since then.
      reason: "stop" or "length" in the last piece, None before.
    """

    text: str
    tokens: Sequence[SampledToken]
    reason: str | None = None


def pieces(
    completion: Completion, tokenizer: Tokenizer, stops: Sequence[str], *, echoes: bool = False
) -> Iterator[Piece]:
    """Yield a completion piece by piece, as its tokens come.

    Its slot is given back once a stop text ends it, or once the caller stops iterating.

    Args:
      completion: under way.
      tokenizer: of the policy.
      stops: texts that end it and are no part of it.
      echoes: begin with the prompt, in which no stop text is looked for.
    """
    stream = TextStream(tokenizer.decode, stops)
    reason = "length"
    try:
        for token in completion:
            if echoes:
                yield Piece(tokenizer.decode(completion.request.prompt), completion.scored_prompt)
                echoes = False
            if token.is_end:
                yield Piece("", [token])
                reason = "stop"
                break
            text = stream.add(token.token)
            yield Piece(text, [token])
            if stream.is_stopped:
                reason = "stop"
                break
        yield Piece("" if stream.is_stopped else stream.finish(), [], reason)
    finally:
        completion.cancel()


def join_pieces(parts: Iterator[Piece]) -> Piece:
    """Join all pieces of a completion into one.

    Args:
      parts: at least one piece, as `pieces` yields them.
    """
    everything = list(parts)
    tokens = [token for part in everything for token in part.tokens]
    return Piece("".join(part.text for part in everything), tokens, everything[-1].reason)


@dataclasses.dataclass(frozen=True)
class ChoiceForm:
    """How a kind of request shows its choices.

    Attributes:
      name: of the object that holds all choices.
      chunk_name: of the objects of a stream.
      prefix: of their ids.
      whole: text -> fields of a whole choice.
      part: text, whether it is the first part -> fields of a part.
      log_probs: tokens, alternatives, text of a token -> the field `logprobs`.
    """

    name: str
    chunk_name: str
    prefix: str
    whole: Callable[[str], dict]
    part: Callable[[str, bool], dict]
    log_probs: Callable[[Sequence[SampledToken], int, Callable[[int], str]], dict]


def choice(
    form: ChoiceForm,
    piece: Piece,
    index: int,
    *,
    tokenizer: Tokenizer,
    alternatives: int | None,
    returns_ids: bool,
    content: dict,
) -> dict[str, typing.Any]:
    """Build a choice, or a part of one, as the protocol has it.

    Args:
      form: of the kind of request.
      piece: text and tokens.
      index: number of the choice.
      tokenizer: spells out tokens.
      alternatives: likely tokens listed beside each one; None leaves log-probabilities out.
      returns_ids: list the token ids as well.
      content: the fields that `form` makes of the text.
    """
    fields: dict[str, typing.Any] = {"index": index, **content, "finish_reason": piece.reason, "logprobs": None}
    if alternatives is not None:
        fields["logprobs"] = form.log_probs(piece.tokens, alternatives, lambda token: token_text(tokenizer, token))
    if returns_ids:
        fields["token_ids"] = [token.token for token in piece.tokens]
    return fields


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """Return the text of one token; special tokens are spelled out."""
    return tokenizer.decode(np.array([token])) or tokenizer.model.id_to_token(token) or ""


def _chat_log_probs(tokens: Sequence[SampledToken], alternatives: int, text: Callable[[int], str]) -> dict:
    def entry(token: int, log_prob: float | None) -> dict[str, typing.Any]:
        spelled = text(token)
        return {"token": spelled, "logprob": log_prob, "bytes": list(spelled.encode())}

    content = [
        entry(token.token, token.log_prob)
        | {"top_logprobs": [entry(*near) for near in token.alternatives[:alternatives]]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _text_log_probs(tokens: Sequence[SampledToken], alternatives: int, text: Callable[[int], str]) -> dict:
    spelled = [text(token.token) for token in tokens]

    def near(token: SampledToken) -> dict[str, float] | None:
        if token.log_prob is None:
            return None
        return {text(other): log_prob for other, log_prob in token.alternatives[:alternatives]}

    return {
        "tokens": spelled,
        "token_logprobs": [token.log_prob for token in tokens],
        "top_logprobs": [near(token) for token in tokens],
        "text_offset": np.cumsum([0, *map(len, spelled)])[:-1].tolist(),
    }


CHAT = ChoiceForm(
    name="chat.completion",
    chunk_name="chat.completion.chunk",
    prefix="chatcmpl",
    whole=lambda text: {"message": {"role": "assistant", "content": text, "refusal": None}},
    part=lambda text, is_first: {"delta": {"role": "assistant", "content": text} if is_first else {"content": text}},
    log_probs=_chat_log_probs,
)
TEXT = ChoiceForm(
    name="text_completion",
    chunk_name="text_completion",
    prefix="cmpl",
    whole=lambda text: {"text": text},
    part=lambda text, _: {"text": text},
    log_probs=_text_log_probs,
)
