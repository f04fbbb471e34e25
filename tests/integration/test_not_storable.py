"""What no database takes (NUL, halves of characters, NaN, broken UTF-8, megabytes) breaks no run, in whatever field."""

import json
import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.tables import sessions
from fleetagent.agent.approvals import Approvals
from fleetagent.agent.served import Served
from fleetagent.agent.subject import Subject, label_prefix
from fleetagent.domain.records import Outcome
from fleetagent.domain.resource import Annotation
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import NotStorable
from support.fakes import QuietCluster
from support.manifests import a_fleet_agent
from support.on_postgres import OnPostgres
from support.stores import KEY, NOON, Process

BAD = "a\x00b\ud800c\udc00d\ufffee\x1b[31m\u202ef"
HUGE = random.Random(1).randbytes(5_000_000).hex()  # noqa: S311
"""Ten megabytes that do not compress to nothing."""

BAD_TEXT = re.compile("[\x1b\ufffe]")
BAD_JSON = re.compile(r"(?<!\\)(?:\\\\)*\\u(?:00|d8)|[\ufffe]")
"""An escape, not somebody's text about one."""

Answer = Callable[[dict[str, Any]], httpx2.Response]


async def test_a_refused_value_is_named_by_no_error(database_url: str) -> None:
    engine = open_engine(database_url)
    try:
        with pytest.raises(NotStorable) as caught:
            async with Database(engine).transaction() as connection:
                await connection.execute(
                    sa.update(sessions).values(context_tokens=3_000_000_000, summary="what nobody else may read")
                )
    finally:
        await engine.dispose()

    assert "out of range" in str(caught.value)
    assert "nobody else may read" not in f"{caught.value!r} {caught.value.__cause__}"


@pytest.mark.parametrize("bad", ["\x00", "\ud800"], ids=["NUL", "half a character"])
async def test_what_slips_past_the_border_is_an_error_that_we_know(one: Process, bad: str) -> None:
    run = await one.start()

    with pytest.raises(NotStorable):
        await one.say(run, f"secret{bad}words")
    with pytest.raises(NotStorable):
        await one.conclude(run, verdict_said={"why": f"secret{bad}words"})

    await one.say(run, "the next one is stored")


# --- what a model says ---


def served_by(process: Process, answer: Answer, **more: Any) -> OnPostgres:
    """An agent whose model server is this function."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        if not request.url.path.endswith("/chat/completions"):
            return httpx2.Response(404)
        return answer(json.loads(request.content))

    server: Any = SimpleNamespace(url="http://127.0.0.1:1/v1")
    return OnPostgres(process, server, httpx2.AsyncClient(transport=httpx2.MockTransport(handle)), **more)


def completion(message: dict[str, Any], reason: str = "stop", **more: Any) -> httpx2.Response:
    body = {
        "id": BAD,
        "model": BAD,
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920},
        **more,
    }
    return httpx2.Response(200, content=json.dumps(body).encode(), headers={"content-type": "application/json"})


def a_call(name: str, arguments: str, call_id: str = BAD) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls_then_verdict(*calls: dict[str, Any], **message: Any) -> Answer:
    """The calls first; once they are answered, words and a verdict that are as bad."""
    verdict = f'{BAD} hold {{"action": false, "state_changed": false, "why": {json.dumps(BAD)}, "share": NaN}}'

    def answer(asked: dict[str, Any]) -> httpx2.Response:
        if any(m["role"] == "tool" for m in asked["messages"]):
            return completion({"content": verdict, "reasoning_content": BAD})
        return completion({"content": BAD, "tool_calls": list(calls), **message}, "tool_calls")

    return answer


WAKE = a_call("schedule_next_check", json.dumps({"minutes": 60, "reason": BAD}))
ALERT = a_call("raise_alert", json.dumps({"severity": "warning", "message": BAD}))
LAUNCH = a_call("launch_instance", json.dumps({"offer_id": BAD, "reason": BAD}))
STOP = a_call("stop_instance", json.dumps({"instance_id": BAD, "reason": BAD}))
ODD = a_call("stop_instance", json.dumps({"instance_id": "9", "reason": "r", BAD: [float("nan"), {BAD: float("inf")}]}))
NAMELESS = a_call(f"no_{BAD}_tool", json.dumps({BAD: BAD}))
NOT_JSON = a_call("get_fleet", f'{{"{BAD}": ')
RAW = a_call("schedule_next_check", f'{{"minutes": NaN, "reason": "{BAD}"}}')


@pytest.mark.parametrize(
    "answer",
    [
        calls_then_verdict(WAKE, ALERT),
        calls_then_verdict(LAUNCH, STOP, ODD),
        calls_then_verdict(NAMELESS, NOT_JSON, RAW),
        calls_then_verdict(WAKE, reasoning_content=BAD, reasoning=BAD, refusal=BAD),
        calls_then_verdict(a_call("raise_alert", json.dumps({"severity": "info", "message": HUGE}))),
        calls_then_verdict(WAKE, content=HUGE, reasoning_content=HUGE),
        lambda _: completion({"content": None, "reasoning_content": f"{BAD}<tool_call>{BAD}</tool_call>"}),
        lambda _: completion({"content": [{"type": "text", "text": BAD}]}),
    ],
    ids=["wake and alert", "effects", "useless calls", "thinking", "a huge alert", "huge words", "no text", "parts"],
)
async def test_whatever_a_model_says_the_run_ends_and_is_stored(one: Process, answer: Answer) -> None:
    on = served_by(one, answer)

    ended = await on.run(Trigger.REQUEST)

    assert ended.outcome in {Outcome.HELD, Outcome.REFUSED, Outcome.NO_PROGRESS, Outcome.FAILED, Outcome.ACTED}
    assert [r["state"] for r in await one.rows("SELECT state FROM runs")] == ["finished"]
    assert await bad_texts(one) == []
    assert (await served_by(one, lambda _: completion({"content": "hold"})).run()).outcome is Outcome.HELD


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"error": {"message": BAD, "code": BAD, "type": BAD}}).encode(),
        b"\xff\xfe\x00 not even text \xed\xa0\x80",
        HUGE.encode(),
        json.dumps({"error": {"message": HUGE}}).encode(),
    ],
    ids=["bad words", "broken UTF-8", "huge", "huge words"],
)
async def test_whatever_an_error_says_the_run_ends_and_is_stored(one: Process, body: bytes) -> None:
    statuses = [400, 401, 404, 413, 422, 429, 500, 503]
    for status in statuses:

        def answer(_: dict[str, Any], status: int = status) -> httpx2.Response:
            return httpx2.Response(status, content=body)

        on = served_by(one, answer)

        ended = await on.run(Trigger.REQUEST)

        assert ended.outcome in {Outcome.FAILED, Outcome.CONTEXT_FULL}, status
    runs = await one.rows("SELECT state, error FROM runs")
    assert {r["state"] for r in runs} == {"finished"}
    assert max(len(r["error"]) for r in runs) < 5_000
    assert await bad_texts(one) == []


async def test_an_answer_that_is_no_utf8_fails_the_run_in_words(one: Process) -> None:
    good = completion({"content": "hold"}).content
    on = served_by(one, lambda _: httpx2.Response(200, content=good.replace(b"hold", b"ho\xff\xfe\xed\xa0\x80ld")))

    await on.run(Trigger.REQUEST)

    assert [r["state"] for r in await one.rows("SELECT state FROM runs")] == ["finished"]
    assert await bad_texts(one) == []


async def test_a_summary_that_is_as_bad_is_stored_and_shown_clean(one: Process) -> None:
    old = await one.start()
    for n in range(10):
        await one.say(old, f"{n} " + "the fleet was looked at and nothing was done " * 50)
    await one.conclude(old)

    summary = f"Fleet: on target{BAD}\nDecisions: the fleet was looked at often and nobody acted on anything at all"

    def answer(asked: dict[str, Any]) -> httpx2.Response:
        return completion({"content": "hold" if asked.get("tools") else summary})

    on = served_by(one, answer, spec={"context": {"tokenBudget": 5_000}, "model": {"maxOutputTokens": 512}})

    await on.run(Trigger.REQUEST)

    (row,) = await one.rows("SELECT method, summary FROM compactions")
    assert row["method"] == "Summary"
    assert "nobody acted" in row["summary"]
    assert await bad_texts(one) == []


# --- what people and machines say ---


async def test_whatever_people_write_into_annotations_is_stored(one: Process) -> None:
    alert = await one.runs.raise_alert((await one.agent()).id, 0, "Model", "warning", "look")
    said = {
        Annotation.MESSAGE: BAD,
        Annotation.REQUESTED_AT: BAD,
        Annotation.RESET_REQUESTED_AT: BAD,
        Annotation.ACKNOWLEDGE: f"alert-{alert}: {BAD}",
        Annotation.APPROVE: BAD,
        Annotation.REJECT: HUGE,
    }
    annotations = {name.value: text for name, text in said.items()}
    agent = a_fleet_agent(name=KEY.name, namespace=KEY.namespace, metadata={"annotations": annotations})
    subject = Subject(agent, await one.agent(), label_prefix("test", KEY))
    approvals = Approvals(one.ledger, QuietCluster(), lambda: NOON)
    served, lease = Served(one.agents, one.runs, QuietCluster(), approvals), await one.lease()

    assert await served.reset(subject, lease)
    assert await served.refuse_the_rest(subject, lease)
    assert await served.persist(subject, ())

    run = await one.runs.claim(lease, NOON)
    assert {p.kind for p in run.calls.pending} == {Trigger.FEEDBACK, Trigger.REQUEST}
    await one.conclude(run)
    assert await bad_texts(one) == []


async def bad_texts(process: Process) -> list[str]:
    """Columns that hold what a terminal or a model server would stumble over; in JSON it would be escaped."""
    columns = await process.rows(
        "SELECT table_name AS name, column_name AS column, data_type AS type FROM information_schema.columns "
        "WHERE table_schema = 'public' AND data_type IN ('text', 'jsonb')"
    )
    found: list[str] = []
    for c in columns:
        name, column = c["name"], c["column"]
        kept = await process.rows(f'SELECT "{column}"::text AS text FROM {name} WHERE "{column}" IS NOT NULL')  # noqa: S608
        if any((BAD_JSON if c["type"] == "jsonb" else BAD_TEXT).search(row["text"]) for row in kept):
            found.append(f"{name}.{column}")
    return found
