"""What a worker may change about its own machine: the token says which one it is."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.tables import agents, hosts, instances
from fleetagent.adapters.postgres.waiting import persist_trigger
from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.domain.fleet import ENDED, Phase
from fleetagent.domain.records import AgentKey
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.workers import Registered, WorkerAnswer

DEAD = (Phase.STOPPING, *ENDED)
KEPT_RATES = 20


class PostgresWorkers:
    """Implements `entrypoints.workers.WorkerMemory`: transitions only forward, a repeat is a no-op."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, token: str, label: str, now: datetime) -> Registered | None:
        """The worker is up; the same pair each time. A machine that proved already has restarted."""
        async with self._database.transaction() as connection:
            row = await self._machine(connection, token)
            if row is None:
                return None
            uuid, runner_id = row.worker_uuid or str(uuid4()), row.runner_id or row.id
            kept = {"worker_uuid": uuid, "runner_id": runner_id, "worker_label": label}
            await self._keep(connection, row, **kept)
            restarted = row.phase == Phase.PROVING
            if restarted or row.phase in {Phase.REQUESTED, Phase.LOADING}:
                await self._move(connection, row, Phase.REGISTERED, now)
            if restarted:
                await self._news(connection, row, f"machine {row.provider_id or row.label} has restarted", now)
        return Registered(uuid, runner_id, _key(row))

    async def params_done(self, token: str, uuid: str, now: datetime) -> WorkerAnswer | None:
        """Parameters are there: the benchmark begins."""
        async with self._database.transaction() as connection:
            row = await self._machine(connection, token, uuid)
            if row is None:
                return None
            if row.phase == Phase.REGISTERED:
                await self._move(connection, row, Phase.BENCHMARKING, now)
        return WorkerAnswer(_key(row), ok=True, passed=True)

    async def bench_done(self, token: str, uuid: str, rate: float, now: datetime) -> WorkerAnswer | None:
        """The measured rate: at or above the minimum the machine proves, below it is failed for good."""
        async with self._database.transaction() as connection:
            row = await self._machine(connection, token, uuid)
            if row is None:
                return None
            if row.failure is not None or row.phase == Phase.PROVING:  # measured already: the first result stands
                return WorkerAnswer(_key(row), ok=True, passed=row.failure is None)
            passed = rate > 0 and rate >= row.min_rate
            if row.phase in {Phase.REGISTERED, Phase.BENCHMARKING}:
                await self._remember_rate(connection, row, rate)
                name = row.provider_id or row.label
                if passed:
                    await self._move(connection, row, Phase.PROVING, now, measured_rate=rate)
                    words = f"machine {name} proves at {rate:g} p/h (expected {row.expected_rate:g})"
                else:
                    lacks = f" is below the minimum of {row.min_rate}" if rate > 0 else ": it makes no proofs"
                    because = f"benchmark of {rate:g} p/h{lacks}"
                    await self._move(connection, row, row.phase, now, measured_rate=rate, failure=because)
                    words = f"machine {name}: {because}"
                await self._news(connection, row, words, now)
        return WorkerAnswer(_key(row), ok=True, passed=passed)

    async def running(self, token: str, uuid: str) -> WorkerAnswer | None:
        """The worker makes proofs; said again and again, it changes nothing."""
        async with self._database.transaction() as connection:
            row = await self._machine(connection, token, uuid)
        return None if row is None else WorkerAnswer(_key(row), ok=row.phase == Phase.PROVING, passed=True)

    async def _machine(self, connection: AsyncConnection, token: str, uuid: str | None = None) -> sa.Row[Any] | None:
        query = (
            sa.select(instances, agents.c.namespace, agents.c.name)
            .join(agents, agents.c.id == instances.c.agent_id)
            .where(instances.c.worker_token_hash == token_hash(token), instances.c.phase.not_in(DEAD))
            .with_for_update(of=instances)
        )
        if uuid is not None:
            query = query.where(instances.c.worker_uuid == uuid)
        return (await connection.execute(query)).one_or_none()

    async def _keep(self, connection: AsyncConnection, row: sa.Row[Any], **values: object) -> None:
        it = sa.update(instances).where(instances.c.agent_id == row.agent_id, instances.c.id == row.id)
        await connection.execute(it.values(**values))

    async def _move(
        self, connection: AsyncConnection, row: sa.Row[Any], phase: str, now: datetime, **more: object
    ) -> None:
        timeline = instances.c.timeline.concat(sa.cast([[phase, now.isoformat()]], instances.c.timeline.type))
        await self._keep(connection, row, phase=phase, phase_since=now, timeline=timeline, **more)

    async def _remember_rate(self, connection: AsyncConnection, row: sa.Row[Any], rate: float) -> None:
        key = {"agent_id": row.agent_id, "machine_id": row.machine_id}
        key |= {"gpu_name": row.gpu_name, "num_gpus": row.num_gpus}
        query = sa.select(hosts.c.rates).where(*[hosts.c[name] == value for name, value in key.items()])
        rates = [*(await connection.scalar(query) or []), rate][-KEPT_RATES:]
        new = insert(hosts).values(**key, rates=rates)
        await connection.execute(new.on_conflict_do_update(index_elements=list(key), set_={"rates": rates}))

    async def _news(self, connection: AsyncConnection, row: sa.Row[Any], words: str, now: datetime) -> None:
        value = f"{row.label} {now.astimezone(UTC).isoformat()}"
        await persist_trigger(connection, row.agent_id, Trigger.EVENT, value, words)


def _key(row: sa.Row[Any]) -> AgentKey:
    return AgentKey(row.namespace, row.name)
