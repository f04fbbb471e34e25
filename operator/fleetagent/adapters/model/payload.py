"""Builds the body of a request. Pure, but for what an endpoint has taught us."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.domain.model import JsonObject, ModelRequest
from fleetagent.domain.resource import RESERVED_PARAMETERS
from fleetagent.errors import BadResource

SDK_WORDS = frozenset({"extra_body", "extra_headers", "extra_query", "timeout"})
OTHER_OUTPUT_FIELD = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


@dataclass(slots=True)
class Habits:
    """What one endpoint and model refused once and is not asked again; shared by all who talk to it."""

    output_field: str = "max_tokens"
    takes_tool_choice: bool = True


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """`BadResource` when spec.model.parameters says what only we may say, should the CRD have let it through."""
    for name in sorted(parameters):
        if name in RESERVED_PARAMETERS:
            raise _bad_parameters(f"must not set {name}: the operator sets it")
        if name in SDK_WORDS:
            raise _bad_parameters(f"must not set {name}: what stands here goes into the request's body as it is")


def body_of(request: ModelRequest, model: str, habits: Habits, output_tokens: int) -> JsonObject:
    """One chat completion, without streaming.

    A request that has tools and may not call them keeps them: a server reuses its prefix cache only for equal bytes.
    """
    body: JsonObject = {"model": model, "messages": list(request.messages)}
    if request.tools:
        body["tools"] = list(request.tools)
        if habits.takes_tool_choice:
            body["tool_choice"] = "auto" if request.may_call_tools else "none"
    body[habits.output_field] = output_tokens
    return {**request.parameters, **body}


def _bad_parameters(message: str) -> BadResource:
    return BadResource("ModelAvailable", "BadParameters", f"spec.model.parameters {message}")
