"""The language model that decides, and how much of the conversation it sees."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, WithJsonSchema

from fleetagent.domain.resource.values import (
    HAS_HOST,
    LINE_PATTERN,
    NO_CREDENTIALS,
    NO_QUERY,
    Duration,
    HttpURL,
    SecretKeyRef,
    Usd,
    lasting,
)
from fleetagent.domain.resource.wire import Wire, rules

_ANY_OBJECT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# An object here is refused for its type, a text by the rule.
_TEXT_OR_OBJECT = {"x-kubernetes-int-or-string": True}
_OURS = "Refused here: the operator fills it in."
# What a request's shape, its accounting or its length rests on; with a response_format, servers hold the answer to JSON
# and a tool call never comes. Each is declared, with the type that requests give it,
# only so that a rule can see it: CEL is blind to fields that a schema merely preserves.
RESERVED_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "model": {"type": "string", "maxLength": 253},
    "messages": {"type": "array", "maxItems": 64, "items": _ANY_OBJECT},
    "tools": {"type": "array", "maxItems": 64, "items": _ANY_OBJECT},
    "tool_choice": _TEXT_OR_OBJECT,
    "functions": {"type": "array", "maxItems": 64, "items": _ANY_OBJECT},
    "function_call": _TEXT_OR_OBJECT,
    "stream": {"type": "boolean"},
    "stream_options": _ANY_OBJECT,
    "n": {"type": "integer"},
    "max_tokens": {"type": "integer"},
    "max_completion_tokens": {"type": "integer"},
    "response_format": _ANY_OBJECT,
}
PARAMETERS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "maxProperties": 64,
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {name: {"description": _OURS, **schema} for name, schema in RESERVED_PARAMETERS.items()},
    **rules(
        *(
            (f"!has(self.{name})", f"must not set {name}: the operator fills it in; remove it")
            for name in RESERVED_PARAMETERS
        )
    ),
}


class TokenPrices(Wire):
    """What a million tokens cost, for reports and the day's bill."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!has(self.cachedInput) || has(self.input)", "cachedInput needs input: set the price of input tokens too")
        )
    )

    input: Usd | None = None
    """USD per million prompt tokens, such as "0.40"."""

    output: Usd | None = None
    """USD per million reply tokens, such as "1.20"."""

    cached_input: Usd | None = None
    """USD per million prompt tokens that the server had cached. Absent: the price of input."""


class ModelEndpoint(Wire):
    """An OpenAI-compatible endpoint and how to call it."""

    base_url: HttpURL = Field(alias="baseURL", json_schema_extra=rules(HAS_HOST, NO_CREDENTIALS, NO_QUERY))
    """Base URL of the API, up to and with its version, such as http://vllm.llm.svc:8000/v1."""

    name: str = Field(min_length=1, max_length=253, pattern=LINE_PATTERN)
    """Name of the model, as the endpoint knows it."""

    api_key_secret_ref: SecretKeyRef | None = None
    """Secret key that holds the API key. Absent: none is sent."""

    timeout: Duration = lasting("120s", least="1s", most="1h")
    """Longest wait for one reply of the model."""

    max_output_tokens: int = Field(2048, ge=64, le=131_072)
    """Most tokens of one reply; as many are kept free in the prompt."""

    parameters: Annotated[Mapping[str, Any], WithJsonSchema(PARAMETERS_SCHEMA)] | None = None
    """Further request parameters, passed through as they are, such as temperature: 0.2."""

    usd_per_million_tokens: TokenPrices | None = None
    """What tokens cost. Absent: tokens are counted, not priced."""


class ContextWindow(Wire):
    """How much of the conversation the model sees."""

    token_budget: int = Field(30_000, ge=2_000, le=1_000_000)
    """Most tokens of one request, reply included; the conversation is compacted to fit."""

    tool_result_chars: int = Field(200, ge=0, le=20_000)
    """Characters of each tool result that the conversation keeps; the run that asked sees all of it."""

    session: str = Field("", max_length=253, pattern=LINE_PATTERN)
    """Any new value archives the conversation and starts a new one."""
