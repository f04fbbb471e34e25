"""Actions before their effects, and the machines that they made."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.approvals import PostgresApprovals
from fleetagent.adapters.postgres.database import NOW
from fleetagent.adapters.postgres.fleet_rows import (
    INSTANCE,
    action_of,
    exclude_host,
    instance_of,
    next_number,
    write_change,
)
from fleetagent.adapters.postgres.intents import MAY_BEGIN, NOT_WAITING, asked_columns, launch_intent, taken_up
from fleetagent.adapters.postgres.pulse import read_pulse
from fleetagent.adapters.postgres.spend import BILLED, bill_fleet, book
from fleetagent.adapters.postgres.tables import actions, instances, samples
from fleetagent.adapters.postgres.waiting import persist_trigger
from fleetagent.adapters.postgres.wishes import wish_json
from fleetagent.domain.approval import Wish
from fleetagent.domain.facts import LIFECYCLE, Refusal
from fleetagent.domain.fleet import ENDED, Instance, Phase
from fleetagent.domain.money import usd_between
from fleetagent.domain.records import Action, ActionState, Asked, LaunchIntent, Lease, Pulse, Run
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.settle import Change, Doomed
from fleetagent.errors import Denied

_LIVING = (
    sa.select(*INSTANCE)
    .where(instances.c.agent_id == sa.bindparam("agent"), instances.c.phase.not_in(ENDED))
    .order_by(instances.c.id)
)
_SAMPLE = insert(samples).on_conflict_do_nothing()

SETTLED_TOGETHER = 50
"""Machines in one transaction: that of a whole lost fleet would pass the time limit, and so would each later try."""


class PostgresLedger(PostgresApprovals):
    """Implements `ports.Ledger`."""

    async def instances(self, agent_id: int) -> tuple[Instance, ...]:
        """See `ports.Ledger.instances`."""
        async with self._database.statements() as connection:
            rows = (await connection.execute(_LIVING, {"agent": agent_id})).all()
        return tuple(instance_of(r) for r in rows)

    async def pulse(self, agent_id: int, run_id: int, now: datetime) -> Pulse:
        """See `ports.Ledger.pulse`."""
        async with self._database.statements() as connection:
            return await read_pulse(connection, agent_id, run_id, now)

    async def intend_launch(self, run: Run, intent: LaunchIntent, now: datetime) -> int:
        """See `ports.Ledger.intend_launch`."""
        async with self._database.in_session(run) as connection:
            action_id = await connection.scalar(launch_intent(run, intent, now).returning(actions.c.id))
            if action_id is None:
                raise Denied(NOT_WAITING, f"action-{intent.asked.approved} waits no more")
            await connection.execute(
                sa.insert(instances).values(
                    agent_id=run.agent_id,
                    label=intent.label,
                    number=await next_number(connection, run.agent_id),
                    action_id=action_id,
                    phase=Phase.REQUESTED,
                    phase_since=now,
                    timeline=[[Phase.REQUESTED, now.isoformat()]],
                    requested_at=now,
                    machine_id=intent.machine_id,
                    gpu_name=intent.gpu_name,
                    num_gpus=intent.num_gpus,
                    cpu_ram_gb=intent.cpu_ram_gb,
                    cpu_cores=intent.cpu_cores,
                    usd_per_hour=intent.usd_per_hour,
                    expected_rate=intent.expected_rate,
                    min_rate=intent.min_rate,
                    worker_token_hash=intent.worker_token_hash,
                    billed_until=now,
                )
            )
        return action_id or 0

    async def intend_stop(
        self, lease: Lease, run_id: int, instance: Instance, *, intent_key: str, by: str, reason: str, now: datetime
    ) -> int:
        """See `ports.Ledger.intend_stop`."""
        async with self._database.owned(lease) as connection:
            why = {"intent_key": intent_key, "by": by, "reason": reason}
            return await self._stopping(connection, lease.agent_id, run_id, instance, now=now, **why)

    async def _stopping(
        self,
        connection: AsyncConnection,
        agent_id: int,
        run_id: int,
        instance: Instance,
        *,
        intent_key: str,
        by: str,
        reason: str,
        now: datetime,
    ) -> int:
        new = insert(actions).values(
            agent_id=agent_id,
            run_id=run_id,
            intent_key=intent_key,
            kind="stop",
            by=by,
            args={"instance_id": instance.instance_id, "reason": reason},
            state=ActionState.INTENDED,
            label=instance.label,
            provider_ref=instance.provider_id,
            usd_per_hour=instance.usd_per_hour,
            created_at=now,
        )
        begins = {**taken_up(run_id, now), "provider_ref": instance.provider_id}
        new = new.on_conflict_do_update(index_elements=["intent_key"], set_=begins, where=MAY_BEGIN)
        action_id = await connection.scalar(new.returning(actions.c.id))
        if action_id is None:
            raise Denied(NOT_WAITING, f"the stop of {instance.instance_id} waits no more")
        await connection.execute(
            sa.update(instances)
            .where(instances.c.label == instance.label, instances.c.phase.not_in(ENDED))
            .values(
                phase=Phase.STOPPING,
                phase_since=now,
                failure=sa.func.coalesce(instances.c.failure, reason if by == LIFECYCLE else None),
                timeline=instances.c.timeline.concat(
                    sa.cast([[Phase.STOPPING, now.isoformat()]], instances.c.timeline.type)
                ),
            )
        )
        return int(action_id)

    async def refuse(self, run: Run, asked: Asked, refusal: Refusal, wish: Wish | None = None) -> None:
        """See `ports.Ledger.refuse`."""
        async with self._database.in_session(run) as connection:
            await connection.execute(
                sa.insert(actions).values(
                    **asked_columns(run, asked),
                    state=ActionState.REFUSED,
                    refusal={"code": refusal.code, "sentence": refusal.sentence},
                    usd_per_hour=wish.usd_per_hour if wish is not None else None,
                    wish=wish_json(wish),
                    settled_at=NOW,
                )
            )

    async def launched(self, lease: Lease, action_id: int, provider_id: str) -> None:
        """See `ports.Ledger.launched`."""
        await self._outcome(lease, action_id, ActionState.DONE, None, provider_id)

    async def unclear(self, lease: Lease, action_id: int, because: str, provider_id: str | None) -> None:
        """See `ports.Ledger.unclear`."""
        await self._outcome(lease, action_id, ActionState.UNKNOWN, because, provider_id)

    async def not_launched(self, lease: Lease, action_id: int, because: str, now: datetime) -> None:
        """See `ports.Ledger.not_launched`."""
        async with self._database.owned(lease) as connection:
            await connection.execute(
                sa.update(actions)
                .where(actions.c.agent_id == lease.agent_id, actions.c.id == action_id)
                .values(state=ActionState.FAILED, error=because, settled_at=now)
            )
            await connection.execute(
                sa.update(instances)
                .where(instances.c.agent_id == lease.agent_id, instances.c.action_id == action_id)
                .values(phase=Phase.FAILED, phase_since=now, failure=because, gone_at=now)
            )

    async def _outcome(
        self, lease: Lease, action_id: int, state: ActionState, error: str | None, provider_id: str | None
    ) -> None:
        async with self._database.owned(lease) as connection:
            await connection.execute(
                sa.update(actions)
                .where(actions.c.agent_id == lease.agent_id, actions.c.id == action_id)
                .values(state=state, error=error, provider_ref=provider_id, settled_at=NOW)
            )
            if provider_id is not None:
                await connection.execute(
                    sa.update(instances)
                    .where(instances.c.agent_id == lease.agent_id, instances.c.action_id == action_id)
                    .values(provider_id=provider_id)
                )

    async def stop_asked(self, lease: Lease, label: str, now: datetime) -> None:
        """See `ports.Ledger.stop_asked`."""
        async with self._database.owned(lease) as connection:
            await connection.execute(
                sa.update(instances).where(instances.c.label == label).values(destroy_asked_at=now)
            )
            await connection.execute(
                sa.update(actions)
                .where(actions.c.label == label, actions.c.kind == "stop", actions.c.state == ActionState.INTENDED)
                .values(state=ActionState.DONE, settled_at=now)
            )

    async def actions(self, agent_id: int, run_id: int) -> tuple[Action, ...]:
        """See `ports.Ledger.actions`."""
        of_it = sa.or_(actions.c.run_id == run_id, actions.c.executed_by_run == run_id)
        query = sa.select(actions).where(actions.c.agent_id == agent_id, of_it)
        async with self._database.statements() as connection:
            rows = (await connection.execute(query.order_by(actions.c.id))).all()
        return tuple(action_of(r) for r in rows)

    async def settle(
        self, lease: Lease, changes: Sequence[Change], now: datetime, doomed: Sequence[Doomed] = ()
    ) -> None:
        """See `ports.Ledger.settle`."""
        if not changes and not doomed:
            await self._database.at_once(BILLED, lease, {"now": now})
            return
        for changed, ending in _portions(changes, doomed):
            async with self._database.owned(lease) as connection:
                await bill_fleet(connection, lease.agent_id, now)  # for the same moment it bills once
                for change in changed:
                    await self._change(connection, lease.agent_id, change, now)
                for each in ending:
                    await self._give_up(connection, lease.agent_id, each, now)

    async def _change(self, connection: AsyncConnection, agent_id: int, change: Change, now: datetime) -> None:
        await write_change(connection, agent_id, change, now)
        if change.never_appeared:
            await self._unbill(connection, agent_id, change.instance, now)
        if change.news is not None:
            value = f"{change.instance.label} {now.isoformat()}"
            await persist_trigger(connection, agent_id, Trigger.EVENT, value, change.news)

    async def _give_up(self, connection: AsyncConnection, agent_id: int, doomed: Doomed, now: datetime) -> None:
        instance = doomed.instance
        if doomed.host_failed:
            await exclude_host(connection, agent_id, instance, doomed.because, now)
        why = {"by": LIFECYCLE, "reason": doomed.because, "intent_key": f"{agent_id}:lifecycle:{instance.label}"}
        await self._stopping(connection, agent_id, 0, instance, now=now, **why)
        await persist_trigger(connection, agent_id, Trigger.EVENT, f"{instance.label} doomed", doomed.news)

    async def _unbill(self, connection: AsyncConnection, agent_id: int, instance: Instance, now: datetime) -> None:
        """What never existed has cost nothing, though it counted while that was not known."""
        for moment, usd in usd_between(instance.usd_per_hour, instance.requested_at, now):
            await book(connection, agent_id, moment.astimezone(UTC).date(), "fleet", -usd)
        mine = (instances.c.agent_id == agent_id, instances.c.label == instance.label)
        # should it turn up all the same, it is billed from its order on
        await connection.execute(sa.update(instances).where(*mine).values(billed_until=instances.c.requested_at))

    async def sample(self, agent_id: int, at: datetime, figures: Mapping[str, Any]) -> None:
        """See `ports.Ledger.sample`."""
        async with self._database.statements() as connection:
            await connection.execute(_SAMPLE, {"agent_id": agent_id, "at": at, **figures})


def _portions(
    changes: Sequence[Change], doomed: Sequence[Doomed]
) -> Iterator[tuple[Sequence[Change], Sequence[Doomed]]]:
    """A transaction's worth each, at least one; what is adopted to be ended is never written without its end."""
    ends = {each.instance.label: each for each in doomed}
    for start in range(0, max(1, len(changes)), SETTLED_TOGETHER):
        changed = changes[start : start + SETTLED_TOGETHER]
        yield changed, [ends.pop(c.instance.label) for c in changed if c.instance.label in ends]
    rest = tuple(ends.values())
    for start in range(0, len(rest), SETTLED_TOGETHER):
        yield (), rest[start : start + SETTLED_TOGETHER]
