"""Edge: the part of the OpenAI chat protocol that asks for completions, answered by one of our own policies."""

import secrets
import time
from typing import Annotated

import fastapi
import pydantic
from fastapi import responses

from optimrl_jax.serving.batcher import Answer, Batcher, Question

MOST_CHOICES = 128
Positive = Annotated[int, pydantic.Field(ge=1)]


class Message(pydantic.BaseModel):
    role: str
    content: str


class ChatRequest(pydantic.BaseModel):
    """Fields of the protocol that a policy without tools or images can honour; others are ignored."""

    model: str
    messages: Annotated[list[Message], pydantic.Field(min_length=1)]
    temperature: Annotated[float, pydantic.Field(gt=0, le=10)] = 1.0
    max_tokens: Positive | None = None
    n: Annotated[int, pydantic.Field(ge=1, le=MOST_CHOICES)] = 1
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**31)] | None = None


def create_app(batcher: Batcher, *, name: str, completion_tokens: int) -> fastapi.FastAPI:
    """The service of one policy under `name`; mistakes of a caller come back as 400 or 404 with one line."""
    app = fastapi.FastAPI(title="Policy", version="1")
    app.exception_handler(fastapi.exceptions.RequestValidationError)(_malformed)
    started = int(time.time())

    @app.get("/v1/models")
    def models() -> dict:
        return {"object": "list", "data": [{"id": name, "object": "model", "created": started, "owned_by": "local"}]}

    @app.post("/v1/chat/completions")
    def complete(request: ChatRequest) -> responses.JSONResponse:
        if request.model != name:
            return _error(404, f"model = {request.model!r}: expected {name!r}", code="model_not_found")
        try:
            prompt = batcher.encode("\n\n".join(message.content for message in request.messages))
        except ValueError as error:
            return _error(400, str(error), code="context_length_exceeded")
        seed = secrets.randbelow(2**31) if request.seed is None else request.seed
        most = min(request.max_tokens or completion_tokens, completion_tokens)
        asked = [Question(prompt, request.temperature, most, seed + index) for index in range(request.n)]
        answers = [future.result() for future in [batcher.ask(question) for question in asked]]
        return responses.JSONResponse(_completion(name, answers, prompt_tokens=len(prompt)))

    return app


def _completion(name: str, answers: list[Answer], *, prompt_tokens: int) -> dict:
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": answer.text},
            "finish_reason": "stop" if answer.has_ended else "length",
        }
        for index, answer in enumerate(answers)
    ]
    sampled = sum(answer.tokens for answer in answers)
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": sampled,
        "total_tokens": prompt_tokens + sampled,
    }
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": name,
        "choices": choices,
        "usage": usage,
    }


def _malformed(_: fastapi.Request, error: fastapi.exceptions.RequestValidationError) -> responses.JSONResponse:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return _error(400, f"{where or 'body'}: {first['msg']}", code="invalid_request")


def _error(status: int, message: str, *, code: str) -> responses.JSONResponse:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return responses.JSONResponse(body, status_code=status)
