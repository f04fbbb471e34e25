"""Builds the body of a request. Pure, but for what an endpoint has taught us."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.domain.model import JsonObject, ModelRequest
from fleetagent.errors import BadResource

OURS = frozenset(
    {"messages", "tools", "model", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens"}
    | {"tool_choice", "functions", "function_call"}
)
SDK_WORDS = frozenset({"extra_body", "extra_headers", "extra_query", "timeout"})
OTHER_OUTPUT_FIELD = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


@dataclass(slots=True)
class Habits:
    """What one endpoint and model refused once and is not asked again; shared by all who talk to it."""

    output_field: str = "max_tokens"
    takes_tool_choice: bool = True


def check_parameters(parameters: Mapping[str, Any], *, has_tools: bool) -> None:
    """`BadResource` when spec.model.parameters says what only we may say."""
    for name in sorted(parameters):
        if name in OURS:
            raise _bad_parameters(f"must not set {name}: the operator sets it")
        if name in SDK_WORDS:
            raise _bad_parameters(f"must not set {name}: what stands here goes into the request's body as it is")
    if has_tools and parameters.get("response_format") is not None:
        # Servers then hold the answer to JSON, and a tool call never comes.
        raise _bad_parameters("must not set response_format: it keeps the model from calling tools")


def body_of(request: ModelRequest, model: str, habits: Habits, output_tokens: int) -> JsonObject:
    """One chat completion, without streaming; tools stay even when none may be called, for the prefix cache."""
    body: JsonObject = {"model": model, "messages": list(request.messages)}
    if request.tools:
        body["tools"] = list(request.tools)
        if habits.takes_tool_choice:
            body["tool_choice"] = "auto" if request.may_call_tools else "none"
    body[habits.output_field] = output_tokens
    return {**request.parameters, **body}


def _bad_parameters(message: str) -> BadResource:
    return BadResource("ModelAvailable", "BadParameters", f"spec.model.parameters {message}")
