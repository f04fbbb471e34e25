"""A session as JSON Lines: each line a message as chat-completions servers take it, and what we know of it beside.

The extra key `fleetagent` holds seq, runID, at, kind, estimatedTokens, and if there are any historyContent (what later
runs see of it) and leftPromptBecause. Servers pass over a key that they do not know; who wants none drops that one. An
export that has to end early says so in its last line, which has `error` and `message` and no `role`.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.responses import Response, StreamingResponse

from fleetagent.domain.views import MessageView
from fleetagent.entrypoints.web.api.endpoints import Call, not_found
from fleetagent.entrypoints.web.api.queries import Query
from fleetagent.errors import FleetAgentError

JSON_LINES = "application/jsonl"
LINES_AT_ONCE = 100
NO_LINE_ENDS = {ord(each): f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}
"""JSON may hold them as they are; many who read lines would end one there."""
OURS = {"seq", "run_id", "at", "kind", "estimated_tokens", "history_content", "left_prompt_because"}


async def export(call: Call[Query]) -> Response:
    """All of a session, however long: the memory holds a portion, and no connection waits for a slow reader."""
    if await call.reading.session(call.key, call.id) is None:
        raise not_found(f"session {call.id} of {call.key}")
    name = f"{call.key.namespace}-{call.key.name}-session-{call.id}.jsonl"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_lines(call), media_type=JSON_LINES, headers=headers)


async def _lines(call: Call[Query]) -> AsyncIterator[str]:
    """In portions, each only while the caller may still read them; the status is long sent when that ends."""
    lines: list[str] = []
    try:
        async for message in call.reading.export(call.key, call.id):
            lines.append(_line(chat_message(message)))
            if len(lines) == LINES_AT_ONCE:
                yield "".join(lines)
                lines.clear()
                await call.who.still(call.key.namespace)
    except FleetAgentError as error:
        lines.append(_line({"error": type(error).__name__, "message": str(error)}))
    yield "".join(lines)


def _line(said: Mapping[str, Any]) -> str:
    return json.dumps(said, ensure_ascii=False).translate(NO_LINE_ENDS) + "\n"


def chat_message(message: MessageView) -> dict[str, Any]:
    """The message as it went to the model, or came from it."""
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        said["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        said["tool_call_id"] = message.tool_call_id
    return {**said, "fleetagent": message.model_dump(mode="json", by_alias=True, exclude_none=True, include=OURS)}
