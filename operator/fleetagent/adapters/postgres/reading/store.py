"""The store that page and API read."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.reading import actions as its_actions
from fleetagent.adapters.postgres.reading import agents as its_agents
from fleetagent.adapters.postgres.reading import calls, conversation, fleet
from fleetagent.adapters.postgres.reading import heard as its_words
from fleetagent.adapters.postgres.reading import runs as its_runs
from fleetagent.adapters.postgres.reading.versions import versions_of
from fleetagent.adapters.postgres.tables import agents
from fleetagent.domain.records import HIGHEST_ID, AgentKey
from fleetagent.domain.said import OneWord
from fleetagent.domain.views import (
    ActionView,
    AgentRow,
    AlertView,
    CompactionView,
    HostView,
    MachineView,
    MessageView,
    Page,
    RunRow,
    RunView,
    SampleView,
    SessionView,
    SpendView,
    WakeView,
)
from fleetagent.ports.reading import EVERYTHING, Slice

LONGEST_READ_SECONDS = 5.0
"""For the `Database`: a read that takes longer is ended, on the server too, and the caller told to try later."""

NOBODY = 0

EXPORTED_AT_ONCE = 200
"""Messages: so many are in the memory for one export."""


class PostgresReading:
    """Implements `ports.Reading`.

    Give it a database of its own, on two or three connections and with `longest_seconds=LONGEST_READ_SECONDS`: readers
    must not take the agents' connections, nor the database's time.
    """

    def __init__(self, database: Database, *, cluster: str) -> None:
        self._database = database
        self._cluster = cluster

    async def namespaces(self) -> tuple[str, ...]:
        """See `ports.Reading.namespaces`."""
        async with self._database.statements() as connection:
            return await its_agents.namespaces(connection, self._cluster)

    async def agents(self, namespaces: tuple[str, ...], *, deleted: bool = False) -> tuple[AgentRow, ...]:
        """See `ports.Reading.agents`."""
        which = [agents.c.cluster == self._cluster, agents.c.namespace == sa.any_(sa.literal(list(namespaces)))]
        which += [] if deleted else [agents.c.deleted_at.is_(None)]
        if not namespaces:
            return ()
        async with self._database.statements() as connection:
            return await its_agents.agents_of(connection, *which)

    async def agent(self, key: AgentKey) -> AgentRow | None:
        """See `ports.Reading.agent`."""
        which = (agents.c.cluster == self._cluster, agents.c.namespace == key.namespace, agents.c.name == key.name)
        async with self._database.statements() as connection:
            return next(iter(await its_agents.agents_of(connection, *which)), None)

    async def versions(self, keys: tuple[AgentKey, ...]) -> Mapping[AgentKey, str]:
        """See `ports.Reading.versions`."""
        async with self._database.statements() as connection:
            return await versions_of(connection, self._cluster, keys)

    async def runs(
        self, key: AgentKey, which: Slice = EVERYTHING, *, outcome: str | None = None, trigger: str | None = None
    ) -> Page[RunRow]:
        """See `ports.Reading.runs`."""
        async with self._of(key) as (connection, agent_id):
            return await its_runs.runs_page(connection, agent_id, which, outcome, trigger)

    async def run(self, key: AgentKey, run_id: int) -> RunView | None:
        """See `ports.Reading.run`."""
        async with self._of(key) as (connection, agent_id):
            return await its_runs.run_of(connection, agent_id, run_id) if _can_be_a_key(run_id) else None

    async def sessions(self, key: AgentKey, which: Slice = EVERYTHING) -> Page[SessionView]:
        """See `ports.Reading.sessions`."""
        async with self._of(key) as (connection, agent_id):
            return await conversation.sessions_page(connection, agent_id, which)

    async def session(self, key: AgentKey, session_id: int | None = None) -> SessionView | None:
        """See `ports.Reading.session`."""
        async with self._of(key) as (connection, agent_id):
            return await self._session(connection, agent_id, session_id)

    async def conversation(
        self, key: AgentKey, session_id: int | None = None, which: Slice = EVERYTHING, *, in_prompt: bool = False
    ) -> Page[MessageView]:
        """See `ports.Reading.conversation`."""
        async with self._of(key) as (connection, agent_id):
            session = await self._session(connection, agent_id, session_id)
            if session is None:
                return Page(items=())
            return await conversation.messages_page(connection, session.id, which, in_prompt=in_prompt)

    async def export(self, key: AgentKey, session_id: int) -> AsyncIterator[MessageView]:
        """See `ports.Reading.export`; between two portions it holds no connection, however slow its reader is."""
        seq, portion = 0, None
        while portion is None or len(portion) == EXPORTED_AT_ONCE:
            async with self._of(key) as (connection, agent_id):
                session = await self._session(connection, agent_id, session_id)
                if session is None:
                    return
                portion = await conversation.messages_after(connection, session.id, seq, EXPORTED_AT_ONCE)
            for message in portion:
                yield message
                seq = message.seq

    async def compactions(self, key: AgentKey, session_id: int | None = None) -> tuple[CompactionView, ...]:
        """See `ports.Reading.compactions`."""
        async with self._of(key) as (connection, agent_id):
            session = await self._session(connection, agent_id, session_id)
            return () if session is None else await conversation.compactions_of(connection, session.id)

    async def actions(
        self,
        key: AgentKey,
        which: Slice = EVERYTHING,
        *,
        run_id: int | None = None,
        states: tuple[str, ...] = (),
    ) -> Page[ActionView]:
        """See `ports.Reading.actions`."""
        async with self._of(key) as (connection, agent_id):
            if run_id is not None and not _can_be_a_key(run_id):
                return Page(items=())
            return await its_actions.actions_page(connection, agent_id, which, run_id, states)

    async def wakes(self, key: AgentKey, which: Slice = EVERYTHING, *, state: str | None = None) -> Page[WakeView]:
        """See `ports.Reading.wakes`."""
        async with self._of(key) as (connection, agent_id):
            return await calls.wakes_page(connection, agent_id, which, state)

    async def alerts(self, key: AgentKey, which: Slice = EVERYTHING, *, state: str | None = None) -> Page[AlertView]:
        """See `ports.Reading.alerts`."""
        async with self._of(key) as (connection, agent_id):
            return await calls.alerts_page(connection, agent_id, which, state)

    async def machines(self, key: AgentKey, which: Slice = EVERYTHING, *, ended: bool = False) -> Page[MachineView]:
        """See `ports.Reading.machines`."""
        async with self._of(key) as (connection, agent_id):
            return await fleet.machines_page(connection, agent_id, which, ended=ended)

    async def hosts(self, key: AgentKey) -> tuple[HostView, ...]:
        """See `ports.Reading.hosts`."""
        async with self._of(key) as (connection, agent_id):
            return await fleet.hosts_of(connection, agent_id)

    async def spend(self, key: AgentKey, days: int = 30) -> tuple[SpendView, ...]:
        """See `ports.Reading.spend`."""
        async with self._of(key) as (connection, agent_id):
            return await fleet.spend_of(connection, agent_id, days)

    async def samples(
        self, key: AgentKey, since: datetime, until: datetime, *, most: int = 500
    ) -> tuple[SampleView, ...]:
        """See `ports.Reading.samples`."""
        async with self._of(key) as (connection, agent_id):
            return await fleet.samples_of(connection, agent_id, since, until, most)

    async def heard(self, key: AgentKey, name: OneWord, value: str) -> bool:
        """See `ports.Reading.heard`."""
        async with self._of(key) as (connection, agent_id):
            return await its_words.heard(connection, agent_id, name, value)

    @asynccontextmanager
    async def _of(self, key: AgentKey) -> AsyncIterator[tuple[AsyncConnection, int]]:
        """The agent's row; of an agent that nobody knows a number that no row has."""
        async with self._database.statements() as connection:
            yield connection, await its_agents.agent_id(connection, self._cluster, key) or NOBODY

    async def _session(self, connection: AsyncConnection, agent_id: int, session_id: int | None) -> SessionView | None:
        if session_id is not None and not _can_be_a_key(session_id):
            return None
        return await conversation.session_of(connection, agent_id, session_id)


def _can_be_a_key(number: int) -> bool:
    """For any other one the database would compare decimals, and read the whole table for it."""
    return 0 <= number <= HIGHEST_ID
