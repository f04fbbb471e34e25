"""“As the model sees it now” is what the next request holds: real runs on a real Postgres and a model server."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from fleetagent.agent.tools import TOOLS
from fleetagent.domain.schedule import Trigger
from fleetagent.entrypoints.web.page.prompt import Form, Prompt, prompt, run_composed
from fleetagent.ports.reading import Slice
from support.lived_fleet import HOSTILE
from support.lived_past import pages_of
from support.on_postgres import OnPostgres, on_postgres
from support.rehearsal import a_tool
from support.servers import Model, a_model
from support.stores import KEY, Process

FACTS = "instance 33014980 proves at 42.5 proofs/h; "


@pytest.fixture
def server() -> Iterator[Model]:
    with a_model() as running:
        yield running


@pytest.fixture
async def on(one: Process, server: Model) -> AsyncIterator[OnPostgres]:
    async with on_postgres(one, server) as ready:
        yield ready


async def as_the_page_shows_it(on: OnPostgres) -> Prompt:
    """The prompt that the page would show now."""
    async with pages_of(on.process) as pages:
        row, session = await pages.reading.agent(KEY), await pages.reading.session(KEY)
        assert row is not None
        assert session is not None
        stored = await pages.reading.conversation(KEY, None, Slice(limit=5_000), in_prompt=True)
    run_id = run_composed(row, session.id)
    return prompt(on.agent.spec, session, stored.items[::-1], before=0, run_id=run_id)


def messages_in(shown: Prompt) -> list[dict[str, Any]]:
    """As they go on the wire."""
    head = [{"role": "system", "content": shown.system}]
    summary = [{"role": "user", "content": shown.summary}] if shown.summary is not None else []
    rest = [
        {"role": m.role, "content": m.text, **({"calls": [(c.name, c.arguments) for c in m.calls]} if m.calls else {})}
        for part in shown.parts
        for m in part.messages
    ]
    return [*head, *summary, *rest]


def messages_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Of what the server was sent, in the same form."""
    return [
        {
            "role": m["role"],
            "content": m["content"],
            **(
                {"calls": [(c["function"]["name"], c["function"]["arguments"]) for c in m["tool_calls"]]}
                if m.get("tool_calls")
                else {}
            ),
        }
        for m in request["body"]["messages"]
    ]


async def sent_next(on: OnPostgres, server: Model) -> list[dict[str, Any]]:
    """The first request of one more run, without what this run itself adds: what people said, and the facts."""
    seen = server.get("state")["requests"]
    await on.run(Trigger.REQUEST)
    asked = [messages_of(request) for request in server.requests(after=seen)]
    first = next(messages for messages in asked if messages[-1]["content"].startswith("[Run #"))
    facts = first.pop()["content"]
    while "Feedback" in facts and first[-1]["content"].startswith("[sim]"):
        first.pop()
    return first


async def test_a_fresh_agent_has_nothing_but_the_system_prompt(on: OnPostgres, server: Model) -> None:
    await on.record()

    shown = messages_in(await as_the_page_shows_it(on))

    assert shown == await sent_next(on, server)
    assert len(shown) == 1


async def test_what_is_shown_is_what_is_sent_next(on: OnPostgres, server: Model) -> None:
    on.tools = (a_tool("get_fleet", {"facts": FACTS * 20}), *[t for t in TOOLS if t.name != "get_fleet"])
    for words in ("[sim] wake in 5", f"[sim] say {HOSTILE}", "[sim] alert warning look at this"):
        await on.say(words)
        await on.run()
    await on.run()  # a quiet one, which is in nobody's prompt

    page = await as_the_page_shows_it(on)
    shown = messages_in(page)

    assert shown == await sent_next(on, server)
    assert any("calls" in message for message in shown)
    assert any("[cut:" in message["content"] for message in shown)
    assert page.missing_at_end > 0


SMALL_WINDOW = {"context": {"tokenBudget": 5_000}, "model": {"maxOutputTokens": 512}}
MUCH_IS_KEPT = {"context": {"toolResultChars": 4_000}}


@pytest.mark.parametrize(
    ("spec", "facts", "what"),
    [(SMALL_WINDOW, FACTS * 20, "summarised"), (MUCH_IS_KEPT, FACTS * 100, "masked")],
    ids=["summaries", "old facts left out"],
)
async def test_it_is_so_through_compactions_and_after_a_reset(
    on: OnPostgres, server: Model, spec: dict[str, Any], facts: str, what: str
) -> None:
    on.spec = spec
    on.tools = (a_tool("get_fleet", {"facts": facts}), *[t for t in TOOLS if t.name != "get_fleet"])
    seen: Counter[str] = Counter()
    for n in range(12):
        page, before = await as_the_page_shows_it(on) if n else None, (await on.record()).session.compactions
        await on.say(f"[sim] wake in {n + 5}")
        sent = await sent_next(on, server)
        if page is None or (await on.record()).session.compactions > before:
            continue  # what left the prompt in this very run is still in what was shown before it
        assert messages_in(page) == sent
        seen["summarised"] += page.summary is not None
        seen["masked"] += any(message.form is Form.MASKED for part in page.parts for message in part.messages)
    assert seen[what] >= 2

    await on.process.agents.start_session(await on.process.lease(), {})
    assert messages_in(await as_the_page_shows_it(on)) == await sent_next(on, server)
