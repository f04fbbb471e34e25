"""Exact token counters, each on the path and with the words of the server that has it; 404 on all others.

vLLM: `POST /tokenize` outside /v1, which no key guards. llama.cpp: `POST /v1/chat/completions/input_tokens`, `/props`.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.sim.model import refusals
from fleetagent.sim.model.config import Counter
from fleetagent.sim.model.count import Tokens, prompt_tokens, text_tokens
from fleetagent.sim.model.parse import read
from fleetagent.sim.model.personality import ENDS
from fleetagent.sim.model.replies import Answer
from fleetagent.sim.model.thinking import Model
from fleetagent.sim.model.wire import respond

TOKENIZE = "/tokenize"
INPUT_TOKENS = "/v1/chat/completions/input_tokens"
PROPS = "/props"

ASIDE = frozenset({"add_generation_prompt", "add_special_tokens", "continue_final_message", "return_token_strs"})
"""What /tokenize takes beside a chat's own fields."""


def counter_routes(model: Model) -> list[Route]:
    """The routes of every counter; which of them answer is the config's affair."""

    async def tokenize(http: Request) -> Response:
        _only(model, "vllm", TOKENIZE)
        counted = _tokens_of(await _object(http), model)
        if isinstance(counted, Answer):
            return respond(counted)
        count = model.config.count(len(counted))
        body = {
            "count": count,
            "max_model_len": model.config.context_window,
            "tokens": list(counted),
            "token_strs": None,
        }
        return respond(Answer(200, body))

    async def input_tokens(http: Request) -> Response:
        _only(model, "llama.cpp", INPUT_TOKENS)
        if model.refuses_key(http):
            return respond(refusals.wrong_key_llama_cpp())
        counted = _tokens_of(await _object(http), model)
        if isinstance(counted, Answer):
            return respond(counted)
        body = {"object": "response.input_tokens", "input_tokens": model.config.count(len(counted))}
        return respond(Answer(200, body))

    async def props(http: Request) -> Response:
        _only(model, "llama.cpp", PROPS)
        if model.refuses_key(http):
            return respond(refusals.wrong_key_llama_cpp())
        settings = {"id": 0, "id_task": -1, "n_ctx": model.config.context_window, "is_processing": False}
        body = {
            "default_generation_settings": settings,
            "total_slots": 1,
            "model_path": f"/models/{model.config.model}.gguf",
            "chat_template": "scripted policy, no language model",
            "build_info": "scripted",
        }
        return respond(Answer(200, body))

    return [
        Route(TOKENIZE, tokenize, methods=["POST"]),
        Route(INPUT_TOKENS, input_tokens, methods=["POST"]),
        Route(PROPS, props),
    ]


def _only(model: Model, counter: Counter, path: str) -> None:
    if model.config.counter != counter:
        raise HTTPException(404, "Not Found")
    model.recorder.asked_counter(path)


async def _object(http: Request) -> object:
    try:
        return json.loads(await http.body())
    except (ValueError, RecursionError):
        return None


def _tokens_of(body: object, model: Model) -> "Tokens | Answer":
    """The rendered conversation, or a plain text; a conversation may end with anybody."""
    if not isinstance(body, dict):
        return refusals.violated(read(body, model.config.personality).violations)
    text = body.get("prompt", body.get("content"))
    if isinstance(text, str):
        return text_tokens(text)
    personality = replace(model.config.personality, refuses=model.config.personality.refuses - ENDS)
    reading = read(_chat(body, model), personality)
    if reading.request is None or reading.violations:
        return refusals.violated(reading.violations, personality)
    return prompt_tokens(reading.request, generation_prompt=body.get("add_generation_prompt") is not False)


def _chat(body: Mapping[str, Any], model: Model) -> Mapping[str, Any]:
    """As a chat request; the model's name may be left out here."""
    return {"model": model.config.model, **{name: value for name, value in body.items() if name not in ASIDE}}
