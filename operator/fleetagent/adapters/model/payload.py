"""Builds the body of a request. Pure, but for what an endpoint has taught us."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetagent.adapters.model.verdicts import Fix, Judgement, Verdict
from fleetagent.domain.conversation.alternation import alternating, without_system
from fleetagent.domain.model import JsonObject, ModelRequest
from fleetagent.domain.resource import RESERVED_PARAMETERS
from fleetagent.errors import BadResource

SDK_WORDS = frozenset({"extra_body", "extra_headers", "extra_query", "timeout"})
OTHER_OUTPUT_FIELD = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
SHORT_ID_CHARS = 9
LESSONS: Mapping[Fix, tuple[str, Any]] = {
    Fix.TURNS: ("wants_turns", True),
    Fix.NO_SYSTEM: ("takes_system", False),
    Fix.SHORT_IDS: ("wants_short_ids", True),
}


@dataclass(slots=True)
class Habits:
    """What one endpoint and model refused once and is not asked again; shared by all who talk to it.

    The last three are habits of chat templates. They change what is sent, never what is stored.
    """

    output_field: str = "max_tokens"
    takes_tool_choice: bool = True
    wants_turns: bool = False
    takes_system: bool = True
    wants_short_ids: bool = False

    def learn(self, lesson: "Lesson") -> None:
        """From the next request on."""
        setattr(self, *lesson)


Lesson = tuple[str, Any]
"""One habit and what it should be."""


def lesson_in(judgement: Judgement, sent: Habits) -> Lesson | None:
    """What a refusal teaches about a request that was built with the habits `sent`; None when no habit would help."""
    lesson: Lesson | None = None
    if judgement.fix is not None:
        lesson = LESSONS[judgement.fix]
    elif judgement.verdict is Verdict.DEGRADE and judgement.parameter == "tool_choice":
        lesson = ("takes_tool_choice", False)
    elif judgement.verdict is Verdict.DEGRADE and judgement.parameter in OTHER_OUTPUT_FIELD:
        lesson = ("output_field", OTHER_OUTPUT_FIELD[judgement.parameter])
    return None if lesson is None or getattr(sent, lesson[0]) == lesson[1] else lesson


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
    body: JsonObject = {"model": model, "messages": list(_as_the_template_wants(request.messages, habits))}
    if request.tools:
        body["tools"] = list(request.tools)
        if habits.takes_tool_choice:
            body["tool_choice"] = "auto" if request.may_call_tools else "none"
    body[habits.output_field] = output_tokens
    return {**request.parameters, **body}


def _as_the_template_wants(messages: Sequence[JsonObject], habits: Habits) -> Sequence[JsonObject]:
    if habits.wants_turns:
        messages = alternating(messages)
    if not habits.takes_system:
        messages = without_system(messages)
    return tuple(_with_short_ids(messages)) if habits.wants_short_ids else messages


def _with_short_ids(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """The ids that Mistral's template takes: nine letters and digits. The same id is always the same."""
    for message in messages:
        if message["role"] == "tool":
            yield {**message, "tool_call_id": _short(message["tool_call_id"])}
        elif message.get("tool_calls"):
            yield {**message, "tool_calls": [{**call, "id": _short(call["id"])} for call in message["tool_calls"]]}
        else:
            yield message


def _short(call_id: str) -> str:
    return base64.b32encode(hashlib.sha256(call_id.encode()).digest()).decode()[:SHORT_ID_CHARS]


def _bad_parameters(message: str) -> BadResource:
    return BadResource("ModelAvailable", "BadParameters", f"spec.model.parameters {message}")
