"""Edge: the OpenAI protocol over a policy: chat and text completions, whole or streamed, models, and new weights.

Mistakes of a caller come back as 400, 401 or 404 with one line that names the field. Whatever a request asks for is
done or refused, never dropped.
"""

import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence

import fastapi
import numpy as np
from fastapi import responses

from optimrl_jax.serving import choices
from optimrl_jax.serving.choices import CHAT, TEXT, ChoiceForm, Piece
from optimrl_jax.serving.engine import Completion, CompletionRequest, Engine
from optimrl_jax.serving.protocol import ChatRequest, SamplingFields, TextRequest
from optimrl_jax.serving.weights import WeightReceiver

DONE = "data: [DONE]\n\n"


def create_policy_app(
    engine: Engine, *, name: str, key: str = "", weights: WeightReceiver | None = None
) -> fastapi.FastAPI:
    """Build the web service of one policy.

    Args:
      engine: answers the requests.
      name: of the model, which requests have to give.
      key: that requests have to carry as `Authorization: Bearer KEY`; empty: none.
      weights: takes new weights at `/v1/policy`; None: the service has no such path.
    """
    app = fastapi.FastAPI(title="Policy", version="1")
    app.exception_handler(fastapi.exceptions.RequestValidationError)(_malformed)
    card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "local"}
    # Tells `evaluate` whether the policy takes instructions, or reads statements alone.
    card["has_chat_template"] = engine.tokenizer.template is not None

    @app.middleware("http")
    async def require_key(request: fastapi.Request, call: Callable) -> fastapi.Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if key and not hmac.compare_digest(given.encode(), key.encode()):
            return _error(401, "Authorization: expected the key of this service", code="invalid_api_key")
        return await call(request)

    @app.get("/v1/models")
    def models() -> dict:
        return {"object": "list", "data": [card]}

    @app.get("/v1/models/{model}")
    def model_of_name(model: str) -> fastapi.Response:
        return responses.JSONResponse(card) if model == name else _unknown_model(model, name)

    @app.post("/v1/chat/completions")
    def chat_completions(request: ChatRequest) -> fastapi.Response:
        try:
            prompt = engine.encode_messages([message.plain() for message in request.messages])
        except ValueError as error:
            return _error(400, f"messages: {error}", code="context_length_exceeded")
        return _answer(engine, request, [prompt], form=CHAT, name=name)

    @app.post("/v1/completions")
    def completions(request: TextRequest) -> fastapi.Response:
        try:
            prompts = [engine.require_room(_ids(engine, prompt)) for prompt in request.prompts()]
        except ValueError as error:
            return _error(400, f"prompt: {error}", code="context_length_exceeded")
        return _answer(engine, request, prompts, form=TEXT, name=name)

    if weights is not None:
        app.include_router(weights.router())
    return app


def _ids(engine: Engine, prompt: str | list[int]) -> np.ndarray:
    return engine.tokenizer.encode(prompt) if isinstance(prompt, str) else np.asarray(prompt, np.int32)


def _answer(
    engine: Engine, request: SamplingFields, prompts: Sequence[np.ndarray], *, form: ChoiceForm, name: str
) -> fastapi.Response:
    if request.model != name:
        return _unknown_model(request.model, name)
    if not prompts:
        return _error(400, "prompt: expected at least one", code="invalid_request")
    answer = _Answer(engine, request, prompts, form=form, name=name)
    if request.stream:
        return responses.StreamingResponse(answer.events(), media_type="text/event-stream")
    return responses.JSONResponse(answer.whole())


class _Answer:
    """The choices of one request while they are being sampled."""

    def __init__(
        self, engine: Engine, request: SamplingFields, prompts: Sequence[np.ndarray], *, form: ChoiceForm, name: str
    ) -> None:
        self._engine, self._request, self._form, self._prompts = engine, request, form, prompts
        self._head = {"id": f"{form.prefix}-{secrets.token_hex(12)}", "created": int(time.time()), "model": name}
        seed = secrets.randbelow(2**31) if request.seed is None else request.seed
        room = min(request.room() or engine.data.completion_tokens, engine.data.completion_tokens)
        repeated = [prompt for prompt in prompts for _ in range(request.n)]
        scores_prompt = request.echoes() and request.alternatives() is not None
        self._completions = [
            engine.submit(
                CompletionRequest(prompt, seed + index, room, request.temperature, request.top_p, scores_prompt)
            )
            for index, prompt in enumerate(repeated)
        ]
        self._stops = [*request.stops(), *engine.data.stop]

    def whole(self) -> dict:
        """Wait for all choices and return the answer."""
        found = [choices.join_pieces(self._pieces(completion)) for completion in self._completions]
        listed = [self._choice(piece, index, self._form.whole(piece.text)) for index, piece in enumerate(found)]
        if self._request.return_token_ids:
            for index, each in enumerate(listed):
                each["prompt_token_ids"] = self._prompts[index // self._request.n].tolist()
                each["policy_version"] = self._completions[index].version
        return {**self._head, "object": self._form.name, "choices": listed, "usage": self._usage()}

    def events(self) -> Iterator[str]:
        """Yield the answer as server-sent events; all choices grow side by side."""
        chunk = {**self._head, "object": self._form.chunk_name}
        for piece, index, is_first in _interleave_pieces(
            [self._pieces(completion) for completion in self._completions]
        ):
            if piece.text or piece.reason or (piece.tokens and self._request.alternatives() is not None) or is_first:
                part = self._choice(piece, index, self._form.part(piece.text, is_first))
                yield _event({**chunk, "choices": [part]})
        if self._request.stream_options and self._request.stream_options.include_usage:
            yield _event({**chunk, "choices": [], "usage": self._usage()})
        yield DONE

    def _pieces(self, completion: Completion) -> Iterator[Piece]:
        return choices.pieces(completion, self._engine.tokenizer, self._stops, echoes=self._request.echoes())

    def _choice(self, piece: Piece, index: int, content: dict) -> dict:
        return choices.choice(
            self._form, piece, index, tokenizer=self._engine.tokenizer, alternatives=self._request.alternatives(),
            returns_ids=self._request.return_token_ids, content=content,
        )  # fmt: skip

    def _usage(self) -> dict[str, int]:
        prompt = sum(map(len, self._prompts))
        sampled = sum(completion.sampled for completion in self._completions)
        return {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}


def _interleave_pieces(streams: Sequence[Iterator[Piece]]) -> Iterator[tuple[Piece, int, bool]]:
    """Yield the pieces of several completions in turn, each with its number and whether it is its first piece."""
    left = dict(enumerate(streams))
    is_first = set(left)
    try:
        while left:
            for index in list(left):
                piece = next(left[index], None)
                if piece is None:
                    del left[index]
                    continue
                yield piece, index, index in is_first
                is_first.discard(index)
    finally:
        for stream in streams:
            stream.close()  # type: ignore[attr-defined] - generators all of them: closing gives slots back


def _event(body: dict) -> str:
    return f"data: {json.dumps(body)}\n\n"


def _unknown_model(model: str, name: str) -> responses.JSONResponse:
    return _error(404, f"model = {model!r}: expected {name!r}", code="model_not_found")


def _malformed(_: fastapi.Request, error: fastapi.exceptions.RequestValidationError) -> responses.JSONResponse:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    message = "expected no such field" if first["type"] == "extra_forbidden" else first["msg"]
    return _error(400, f"{where or 'body'}: {message}", code="invalid_request")


def _error(status: int, message: str, *, code: str) -> responses.JSONResponse:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return responses.JSONResponse(body, status_code=status)
