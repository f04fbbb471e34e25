"""A session to take along: one message a line, as chat completions take it, and no longer than its reader may."""

import json
from typing import Any

import httpx
import pytest

from support.door import ADMIN, LOOPBACK, OURS_ALONE
from support.one_run import HERE, Server, a_message


@pytest.fixture
def server() -> Server:
    return Server()


async def test_a_session_is_exported_as_chat_completions_take_it(server: Server) -> None:
    call = {"id": "r7_1_0", "name": "launch", "arguments": '{"offer": 7}', "original": "launch!"}
    server.reading.messages = (
        a_message(1, "user", "facts\nü \u2028"),
        a_message(2, "assistant", "", tool_calls=(call,), left_prompt_because="quiet"),
        a_message(3, "tool", "launched", tool_call_id="r7_1_0", history_content="laun"),
    )

    answer = await server.get(f"{HERE}/sessions/4/export")

    assert answer.headers["content-type"] == "application/jsonl"
    assert answer.headers["content-disposition"] == 'attachment; filename="ours-porep-session-4.jsonl"'
    lines = [json.loads(line) for line in answer.text.splitlines()]
    ours = [line.pop("fleetagent") for line in lines]
    function = {"name": "launch", "arguments": '{"offer": 7}'}
    assert lines == [
        {"role": "user", "content": "facts\nü \u2028"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "r7_1_0", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "launched", "tool_call_id": "r7_1_0"},
    ]
    common = {"runID": 7, "at": "2026-11-29T12:00:00Z", "estimatedTokens": 9}
    assert ours == [
        {**common, "seq": 1, "kind": "observation"},
        {**common, "seq": 2, "kind": "reply", "leftPromptBecause": "quiet"},
        {**common, "seq": 3, "kind": "tool_result", "historyContent": "laun"},
    ]


async def test_an_export_ends_when_the_right_to_read_it_does(server: Server) -> None:
    server.reading.messages = tuple(a_message(n, "user", "facts") for n in range(1, 1001))
    whole = await server.get(f"{HERE}/sessions/4/export", OURS_ALONE)
    assert whole.text.count("\n") == 1000

    told: list[bool] = []
    may_read = server.callers.may_read

    async def for_a_while(token: str, namespace: str) -> bool:
        told.append(await may_read(token, namespace))
        return len(told) < 5

    server.callers.may_read = for_a_while  # type: ignore[method-assign]
    cut = (await server.get(f"{HERE}/sessions/4/export")).text.splitlines()
    assert 0 < len(cut) < 1000
    assert json.loads(cut[-1])["error"] == "NotAllowed"
    assert server.reading.closed


async def test_a_client_that_goes_away_ends_the_reading(server: Server) -> None:
    server.reading.messages = tuple(a_message(n, "user", "facts") for n in range(1, 100_001))
    sent: list[dict[str, Any]] = []
    headers = [(b"authorization", f"Bearer {ADMIN}".encode()), (b"host", b"localhost")]
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{HERE}/sessions/4/export",
        "raw_path": b"",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await server.app(scope, receive, send)

    assert server.reading.closed
    assert sum(message.get("body", b"").count(b"\n") for message in sent) < 100_000


async def test_nothing_is_read_for_who_wants_no_body(server: Server) -> None:
    headers = {"authorization": f"Bearer {ADMIN}"}
    transport = httpx.ASGITransport(server.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=LOOPBACK, headers=headers) as client:
        answer = await client.head(f"{HERE}/sessions/4/export")

    assert answer.status_code == 405
    assert server.reading.asked == []
