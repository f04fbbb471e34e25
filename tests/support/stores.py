"""The Postgres stores as operator processes use them: each `Process` owns its leases under a name of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from fleetagent.adapters.postgres.agents import PostgresAgents
from fleetagent.adapters.postgres.conversation import PostgresConversation
from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.leases import PostgresLeases
from fleetagent.adapters.postgres.ledger import PostgresLedger
from fleetagent.adapters.postgres.runs import PostgresRuns
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.records import AgentKey, AgentRecord, Conclusion, Lease, Outcome, Run

KEY = AgentKey("prod", "porep")
NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

HELD = Conclusion(
    outcome=Outcome.HELD,
    summary="held",
    quiet=False,
    verdict={"action": False, "state_changed": False},
    verdict_said=None,
    error=None,
    model_calls=1,
    tokens_in=100,
    tokens_out=10,
    tokens_cached=0,
    usd=Decimal(0),
    fingerprint=None,
    model_failed=False,
)


@dataclass(frozen=True)
class Process:
    """One operator process at the database."""

    database: Database
    agents: PostgresAgents
    leases: PostgresLeases
    runs: PostgresRuns
    conversation: PostgresConversation
    ledger: PostgresLedger

    async def agent(self, uid: str = "uid-1", floor: int = 0) -> AgentRecord:
        """The one agent of these tests, as it is now."""
        return await self.agents.meet(KEY, uid, floor=floor, handled={})

    async def lease(self) -> Lease:
        """Own that agent."""
        lease = await self.agents.take_lease((await self.agent()).id)
        assert lease is not None, "another process owns it"
        return lease

    async def start(self, now: datetime = NOON) -> Run:
        """Claim a run, and with it whatever waits."""
        return await self.runs.claim(await self.lease(), now)

    async def conclude(self, run: Run, **changes: Any) -> None:
        """End it well, unless told otherwise."""
        await self.runs.conclude(run, replace(HELD, **changes))

    async def say(self, run: Run, words: str) -> None:
        """Store one message of this run."""
        await self.conversation.append(run, [Message(run.run_id, Kind.OBSERVATION, "user", words)])

    async def rows(self, query: str) -> list[dict[str, Any]]:
        """Read as an outside check would."""
        async with self.database.transaction() as connection:
            return [dict(row._mapping) for row in (await connection.execute(sa.text(query))).all()]


@asynccontextmanager
async def a_process(
    database_url: str, name: str = "one", lease: timedelta = timedelta(seconds=30)
) -> AsyncIterator[Process]:
    """A process with a pool of its own; it starts and ends as real ones do."""
    engine = open_engine(database_url, 5)
    database = Database(engine)
    try:
        yield Process(
            database,
            PostgresAgents(database, cluster="test", owner=name, lease=lease),
            PostgresLeases(database, lease),
            PostgresRuns(database),
            PostgresConversation(database),
            PostgresLedger(database),
        )
    finally:
        await engine.dispose()
