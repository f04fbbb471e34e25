"""What a worker may change about its own machine: the token says which one it is."""

import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.doorman import Doorman
from fleetagent.adapters.postgres.tables import agents, hosts, instances
from fleetagent.adapters.postgres.waiting import persist_trigger
from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.domain.fleet import ENDED, Phase
from fleetagent.domain.rates import believable
from fleetagent.domain.records import AgentKey
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.workers import Registered, WorkerAnswer, hardly_proves, plausible_rate

DEAD = (Phase.STOPPING, *ENDED)
KEPT_RATES = 20
FIRST_MOVES, LAST_MOVES = 4, 100
"""What is kept of a timeline: a machine may restart for days."""
REGISTERED_ELSEWHERE = sa.and_(instances.c.action_id.is_(None), instances.c.worker_uuid.is_(None))
"""Adopted by its label: its worker has registered with a ledger that is lost. A no would end what may prove; it is told
that it has not said so yet, and begins again."""
CALM, MOST_MOVES_TOLD = timedelta(minutes=10), 60
"""Each telling is a run of the model. A worker that moves more often than this is seen by the looks alone."""


class PostgresWorkers:
    """Implements `entrypoints.workers.WorkerMemory`: transitions only forward, a repeat is a no-op."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._doorman = Doorman(self._hashes, clock)

    async def knows(self, token: str) -> bool | None:
        """Whether it is a live machine's; None: not known now, ask again in a second."""
        return await self._doorman.knows(token)

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
            changed = restarted or row.phase in {Phase.REQUESTED, Phase.LOADING}
            hopeless = hardly_proves(_moves(row), now) if restarted else None
            if changed:
                more = {} if hopeless is None else {"failure": hopeless}
                await self._move(connection, row, Phase.REGISTERED, now, **more)
            if restarted and (hopeless or not _moves_all_the_time(row, now)):
                words = f"machine {row.provider_id or row.label} has restarted"
                await self._news(connection, row, f"{words}: {hopeless}" if hopeless else words, now)
        return Registered(uuid, runner_id, _key(row), changed)

    async def params_done(self, token: str, uuid: str, now: datetime) -> WorkerAnswer | None:
        """Parameters are there: the benchmark begins."""
        async with self._database.transaction() as connection:
            row = await self._machine(connection, token, uuid)
            if row is None:
                return None
            changed = row.phase == Phase.REGISTERED
            if changed:
                await self._move(connection, row, Phase.BENCHMARKING, now)
        return WorkerAnswer(_key(row), ok=True, passed=True, changed=changed)

    async def bench_done(self, token: str, uuid: str, rate: float, now: datetime) -> WorkerAnswer | None:
        """The measured rate: at or above the minimum the machine proves, below it is failed for good."""
        async with self._database.transaction() as connection:
            row = await self._machine(connection, token, uuid)
            if row is None:
                return None
            if row.failure is not None or row.phase == Phase.PROVING:  # measured already: the first result stands
                return WorkerAnswer(_key(row), ok=True, passed=row.failure is None)
            believed = believable(rate, row.num_gpus)  # else: no slip of the table, but a lie
            most = plausible_rate(row.num_gpus)
            counted = min(rate, most) if believed else rate
            passed = believed and counted >= row.min_rate
            changed = row.phase in {Phase.REGISTERED, Phase.BENCHMARKING}
            if changed:
                if believed:  # a stranger's word must not spoil what we know of the host
                    await self._remember_rate(connection, row, counted, now)
                name, says = row.provider_id or row.label, _claim(rate, counted)
                if passed:
                    await self._move(connection, row, Phase.PROVING, now, measured_rate=counted)
                    words = f"machine {name} proves at {says} (expected {row.expected_rate:g})"
                else:
                    because = f"benchmark of {says}{_lack(rate, row)}"
                    await self._move(connection, row, row.phase, now, measured_rate=counted, failure=because)
                    words = f"machine {name}: {because}"
                if not passed or not _moves_all_the_time(row, now):
                    await self._news(connection, row, words, now)
        less = counted if counted < rate else None
        return WorkerAnswer(_key(row), ok=changed, passed=passed, changed=changed, counted_rate=less)

    async def running(self, token: str, uuid: str) -> WorkerAnswer | None:
        """The worker makes proofs; said again and again, it changes nothing."""
        async with self._database.transaction() as connection:
            row = await self._machine(connection, token, uuid)
        return None if row is None else WorkerAnswer(_key(row), ok=row.phase == Phase.PROVING, passed=True)

    async def _hashes(self) -> Collection[str]:
        query = sa.select(instances.c.worker_token_hash).where(
            instances.c.phase.not_in(DEAD), instances.c.worker_token_hash.is_not(None)
        )
        async with self._database.statements() as connection:
            return frozenset((await connection.scalars(query)).all())

    async def _machine(self, connection: AsyncConnection, token: str, uuid: str | None = None) -> sa.Row[Any] | None:
        query = (
            sa.select(instances, agents.c.namespace, agents.c.name)
            .join(agents, agents.c.id == instances.c.agent_id)
            .where(instances.c.worker_token_hash == token_hash(token), instances.c.phase.not_in(DEAD))
            .order_by(instances.c.id)  # a host may have copied a whole container: the first one speaks
            .limit(1)
            .with_for_update(of=instances)
        )
        if uuid is not None:
            query = query.where(sa.or_(instances.c.worker_uuid == uuid, REGISTERED_ELSEWHERE))
        return (await connection.execute(query)).one_or_none()

    async def _keep(self, connection: AsyncConnection, row: sa.Row[Any], **values: object) -> None:
        it = sa.update(instances).where(instances.c.agent_id == row.agent_id, instances.c.id == row.id)
        await connection.execute(it.values(**values))

    async def _move(
        self, connection: AsyncConnection, row: sa.Row[Any], phase: str, now: datetime, **more: object
    ) -> None:
        timeline = [*row.timeline, [phase, now.isoformat()]]
        if len(timeline) > FIRST_MOVES + LAST_MOVES:
            timeline = [*timeline[:FIRST_MOVES], *timeline[-LAST_MOVES:]]
        await self._keep(connection, row, phase=phase, phase_since=now, timeline=timeline, **more)

    async def _remember_rate(self, connection: AsyncConnection, row: sa.Row[Any], rate: float, now: datetime) -> None:
        key = {"agent_id": row.agent_id, "machine_id": row.machine_id}
        key |= {"gpu_name": row.gpu_name, "num_gpus": row.num_gpus}
        query = sa.select(hosts.c.rates).where(*[hosts.c[name] == value for name, value in key.items()])
        rates = [*(await connection.scalar(query) or []), rate][-KEPT_RATES:]
        known = {"rates": rates, "measured_at": now, "cpu_ram_gb": row.cpu_ram_gb}
        new = insert(hosts).values(**key, **known)
        await connection.execute(new.on_conflict_do_update(index_elements=list(key), set_=known))

    async def _news(self, connection: AsyncConnection, row: sa.Row[Any], words: str, now: datetime) -> None:
        value = f"{row.label} {now.astimezone(UTC).isoformat()}"
        await persist_trigger(connection, row.agent_id, Trigger.EVENT, value, words)


def _moves(row: sa.Row[Any]) -> list[tuple[str, datetime]]:
    return [(phase, datetime.fromisoformat(at)) for phase, at in row.timeline]


def _moves_all_the_time(row: sa.Row[Any], now: datetime) -> bool:
    return sum(now - at < CALM for _, at in _moves(row)) > MOST_MOVES_TOLD


def _claim(rate: float, counted: float) -> str:
    if counted == rate:
        return f"{rate:g} p/h"
    return f"{counted:g} p/h (it claims {rate:g}; more than that is not plausible for its GPUs)"


def _lack(rate: float, row: sa.Row[Any]) -> str:
    if not rate > 0:
        return ": it makes no proofs"
    if not believable(rate, row.num_gpus):
        return f" is more than {row.num_gpus}x {row.gpu_name} can make"
    return f" is below the minimum of {row.min_rate}"


def _key(row: sa.Row[Any]) -> AgentKey:
    return AgentKey(row.namespace, row.name)
