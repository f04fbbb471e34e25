"""The server's face: OpenAI's routes, and what each request passes before it is answered."""

import json
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.sim.model import refusals
from fleetagent.sim.model.control import control_routes
from fleetagent.sim.model.conversation import ChatRequest, Violation
from fleetagent.sim.model.count import prompt_tokens
from fleetagent.sim.model.counters import counter_routes
from fleetagent.sim.model.parse import read
from fleetagent.sim.model.record import Exchange, shown
from fleetagent.sim.model.replies import Answer
from fleetagent.sim.model.thinking import Model
from fleetagent.sim.model.wire import NobodyWaitsError, respond, respond_badly

CREATED = 1767225600  # /v1/models wants a date; 2026-01-01
CLIENT_CLOSED_REQUEST = 499


def application(model: Model) -> Starlette:
    """All routes over one model."""

    async def chat(http: Request) -> Response:
        if model.refuses_key(http):
            return respond(refusals.wrong_key())
        exchange = model.recorder.begin(await http.body())
        checked = _checked(model, exchange)
        try:
            answer = await model.answer(http, exchange, checked) if isinstance(checked, ChatRequest) else checked
        except NobodyWaitsError:
            exchange.abandoned = True
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        if not isinstance(answer, Answer):
            exchange.status, exchange.answer = 0, type(answer).__name__
            return respond_badly(answer, model.closing)
        response = respond(answer)
        exchange.status, exchange.answer = answer.status, shown(answer.body, len(response.body))
        return response

    async def models(http: Request) -> Response:
        return respond(refusals.wrong_key() if model.refuses_key(http) else _models(model))

    async def health(_: Request) -> Response:
        return respond(Answer(200, {"status": "ok", "scripted": True}))

    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/models", models),
        Route("/health", health),
        *counter_routes(model),
        *control_routes(model),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_such_route})


def _checked(model: Model, exchange: Exchange) -> Answer | ChatRequest:
    """The request if it is in order, else the answer that says what is wrong; the record knows either way."""
    request, violations = _read(model, exchange)
    config = model.config
    prompt = prompt_tokens(request) if request else None
    if prompt is not None:
        model.recorder.counted(exchange, config.clipped(config.count(len(prompt))))
    if violations or request is None or prompt is None:
        model.recorder.violated(exchange, violations)
        return refusals.violated(violations, config.personality)
    if request.model != config.model:
        return refusals.unknown_model(request.model)
    count = config.clipped(config.count(len(prompt)))
    if refusals.overflows(request, count, config.context_window):
        model.recorder.overflows += 1
        return refusals.overflow(count, request.max_tokens, config.context_window)
    exchange.cached_tokens = min(config.count(model.cache.cached_tokens(prompt)), count)
    return request


def _read(model: Model, exchange: Exchange) -> tuple[ChatRequest | None, tuple[Violation, ...]]:
    try:
        body = json.loads(exchange.raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return None, (Violation("not_json", f"the body is no JSON: {error}"),)
    reading = read(body, model.config.personality)
    return reading.request, reading.violations


def _refuse_constant(word: str) -> None:
    """Python's json reads NaN and Infinity, which are not JSON."""
    raise ValueError(word)


def _models(model: Model) -> Answer:
    """With the window, as vLLM tells it, unless it shall not be told."""
    entry: dict[str, Any] = {
        "id": model.config.model,
        "object": "model",
        "created": CREATED,
        "owned_by": "scripted policy, no language model",
    }
    if model.config.names_window:
        entry["max_model_len"] = model.config.context_window
    return Answer(200, {"object": "list", "data": [entry]})


async def _no_such_route(_: Request, error: Exception) -> Response:
    """As FastAPI says it, so that a base URL with `/v1` missing or doubled looks as it does there."""
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, str(error))
    return respond(Answer(status, {"detail": detail}))
