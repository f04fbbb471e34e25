"""The API around a store with one run in it, that notes what it was asked."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import httpx
from starlette.responses import PlainTextResponse

from fleetagent.domain.records import AgentKey
from fleetagent.domain.views import AgentRow, MessageView, Page, RunRow, RunView, SessionView, SpendView
from fleetagent.entrypoints.web.api import api_routes
from fleetagent.entrypoints.web.app import Pages, visitors, web_app
from fleetagent.entrypoints.web.verbs import Steering
from fleetagent.errors import BadCursor, TryLater
from fleetagent.ports.reading import Reading, Slice
from support.door import ADMIN, BEGAN, LOOPBACK, MadeUpCallers

KEY = AgentKey("ours", "porep")

HERE = "/api/v1/namespaces/ours/agents/porep"

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)

RUN = RunRow(
    run_id=7,
    session_id=4,
    state="finished",
    triggers=("Schedule",),
    started_at=NOON,
    outcome="Held",
    quiet=True,
    model_calls=1,
    tokens_in=100,
    tokens_out=10,
    tokens_cached=0,
    tokens_estimated=False,
    usd=Decimal("0E-9"),
    actions=0,
    refusals=0,
)

SESSION = SessionView(
    id=4, epoch=2, started_at=NOON, messages=3, messages_in_prompt=3, compactions=0, masked_before_run=0
)


def a_message(seq: int, role: str, content: str, **more: Any) -> MessageView:
    kind = {"user": "observation", "assistant": "reply", "tool": "tool_result"}[role]
    return MessageView(
        seq=seq, session_id=4, run_id=7, at=NOON, kind=kind, role=role, content=content, estimated_tokens=9, **more
    )


def an_agent(key: AgentKey = KEY) -> AgentRow:
    return AgentRow(
        namespace=key.namespace,
        name=key.name,
        uid="uid-1",
        last_run_id=7,
        open_alerts=1,
        waiting_actions=0,
        pending_wakes=0,
        last_run=RUN,
    )


@dataclass
class OneRun:
    """A store with one agent, one run and one session; it notes what it was asked."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)
    messages: tuple[MessageView, ...] = ()
    away: bool = False
    closed: bool = False

    async def namespaces(self) -> tuple[str, ...]:
        return ("ours", "theirs")

    async def agents(self, namespaces: tuple[str, ...], *, deleted: bool = False) -> tuple[AgentRow, ...]:
        self.asked.append(("agents", namespaces, deleted))
        return tuple(an_agent(AgentKey(namespace, "porep")) for namespace in namespaces)

    async def agent(self, key: AgentKey) -> AgentRow | None:
        return an_agent() if key == KEY else None

    async def runs(
        self, key: AgentKey, which: Slice, *, outcome: str | None = None, trigger: str | None = None
    ) -> Page[RunRow]:
        self.asked.append(("runs", key, which, outcome, trigger))
        if self.away:
            raise TryLater("database: no answer in time")
        if which.after == "bad":
            raise BadCursor("`after` is no cursor of this list")
        return Page(items=(RUN,), next="more")

    async def run(self, key: AgentKey, run_id: int) -> RunView | None:
        if (key, run_id) != (KEY, 7):
            return None
        return RunView(run=RUN, verdict={"why": None}, actions=(), messages=(), compactions=())

    async def session(self, key: AgentKey, session_id: int | None = None) -> SessionView | None:
        return SESSION if (key, session_id) == (KEY, 4) else None

    async def export(self, key: AgentKey, session_id: int) -> AsyncIterator[MessageView]:
        self.asked.append(("export", key, session_id))
        try:
            for message in self.messages:
                await asyncio.sleep(0)
                yield message
        finally:
            self.closed = True

    async def actions(self, key: AgentKey, which: Slice, **filters: Any) -> Page[Any]:
        self.asked.append(("actions", key, which, filters))
        return Page(items=())

    async def heard(self, *_: object) -> bool:
        return True

    async def spend(self, key: AgentKey, days: int) -> tuple[SpendView, ...]:
        self.asked.append(("spend", key, days))
        return (SpendView(day=NOON.date(), fleet_usd=Decimal("51.2"), model_usd=Decimal("1E-9"), model_tokens=3),)

    async def samples(self, key: AgentKey, since: datetime, until: datetime, *, most: int) -> tuple[Any, ...]:
        self.asked.append(("samples", key, since, until, most))
        return ()


@dataclass
class Server:
    """The whole app around that store."""

    reading: OneRun = field(default_factory=OneRun)
    callers: MadeUpCallers = field(default_factory=MadeUpCallers)

    def __post_init__(self) -> None:
        self.routes = api_routes(cast("Reading", self.reading), lambda: BEGAN)
        self.app = web_app(
            visitors(self.callers, url=None, now=lambda: BEGAN, clock=lambda: 0.0),
            metrics=list,
            api=self.routes,
            pages=Pages([], lambda *_, **__: PlainTextResponse(""), lambda *_: PlainTextResponse("")),
            steer=Steering(lambda: BEGAN, self.reading.heard),
        )

    async def get(self, path: str, token: str | None = ADMIN) -> httpx.Response:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=LOOPBACK, headers=headers) as client:
            return await client.get(path)
