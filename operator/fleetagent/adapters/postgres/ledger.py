"""Actions before their effects, and the machines that they made."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import NOW, Database
from fleetagent.adapters.postgres.fleet_rows import exclude_host, instance_of, write_change
from fleetagent.adapters.postgres.spend import book, on_day
from fleetagent.adapters.postgres.tables import actions, alerts, hosts, instances, samples
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Instance, Phase
from fleetagent.domain.money import usd_between
from fleetagent.domain.records import Action, ActionState, LaunchIntent, Lease, Pulse, Run
from fleetagent.domain.settle import Change

ENDED = (Phase.GONE.value, Phase.FAILED.value)
EFFECTS = (ActionState.INTENDED, ActionState.DONE, ActionState.UNKNOWN)


class PostgresLedger:
    """Implements `ports.Ledger`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def instances(self, agent_id: int) -> tuple[Instance, ...]:
        """See `ports.Ledger.instances`."""
        query = sa.select(instances).where(instances.c.agent_id == agent_id, instances.c.phase.not_in(ENDED))
        async with self._database.transaction() as connection:
            rows = (await connection.execute(query.order_by(instances.c.id))).all()
        return tuple(instance_of(r) for r in rows)

    async def pulse(self, agent_id: int, run_id: int, now: datetime) -> Pulse:
        """See `ports.Ledger.pulse`."""
        counted = sa.select(
            sa.func.count().filter(actions.c.kind == "launch", actions.c.run_id == run_id),
            sa.func.count().filter(actions.c.kind == "stop", actions.c.run_id == run_id),
            sa.func.count().filter(actions.c.kind == "launch", actions.c.created_at > now - timedelta(hours=1)),
        ).where(
            actions.c.agent_id == agent_id,
            actions.c.state.in_(EFFECTS),
            sa.or_(actions.c.run_id == run_id, actions.c.created_at > now - timedelta(hours=1)),
        )
        left_out = sa.select(hosts.c.machine_id, sa.func.max(hosts.c.excluded_until)).where(
            hosts.c.agent_id == agent_id, hosts.c.excluded_until > now
        )
        open_alerts = sa.select(sa.func.count()).where(alerts.c.agent_id == agent_id, alerts.c.state == "open")
        async with self._database.transaction() as connection:
            this_run, stops, last_hour = (await connection.execute(counted)).one()
            excluded = (await connection.execute(left_out.group_by(hosts.c.machine_id))).all()
            bill = await on_day(connection, agent_id, now.astimezone(UTC).date())
            alerts_open = await connection.scalar(open_alerts) or 0
            unbooked = await self._unbooked(connection, agent_id, now)
        usd, _ = bill.get("fleet", (0, 0))
        return Pulse(
            launches_this_run=this_run,
            stops_this_run=stops,
            launches_last_hour=last_hour,
            usd_spent_today=usd + unbooked,
            model_tokens_today=bill.get("model", (0, 0))[1],
            hosts_excluded={r[0]: r[1] for r in excluded},
            open_alerts=alerts_open,
        )

    async def _unbooked(self, connection: AsyncConnection, agent_id: int, now: datetime) -> Any:
        """What live machines cost today since they were last billed."""
        midnight = datetime.combine(now.astimezone(UTC).date(), time.min, tzinfo=UTC)
        since = sa.func.greatest(instances.c.billed_until, midnight)
        hours = sa.func.greatest(sa.extract("epoch", sa.literal(now) - since), 0) / 3600
        query = sa.select(sa.func.coalesce(sa.func.sum(instances.c.usd_per_hour * hours), 0)).where(
            instances.c.agent_id == agent_id, instances.c.phase.not_in(ENDED)
        )
        return await connection.scalar(query) or 0

    async def intend_launch(self, run: Run, intent: LaunchIntent, now: datetime) -> int:
        """See `ports.Ledger.intend_launch`."""
        async with self._database.in_session(run) as connection:
            action_id = await connection.scalar(
                sa.insert(actions)
                .values(
                    agent_id=run.agent_id,
                    run_id=run.run_id,
                    intent_key=intent.intent_key,
                    kind="launch",
                    by=intent.by,
                    args=dict(intent.args),
                    state=ActionState.INTENDED,
                    label=intent.label,
                    usd_per_hour=intent.usd_per_hour,
                    created_at=now,
                )
                .returning(actions.c.id)
            )
            await connection.execute(
                sa.insert(instances).values(
                    agent_id=run.agent_id,
                    label=intent.label,
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
            action_id = await connection.scalar(
                sa.insert(actions)
                .values(
                    agent_id=lease.agent_id,
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
                .returning(actions.c.id)
            )
            await connection.execute(
                sa.update(instances)
                .where(instances.c.label == instance.label, instances.c.phase.not_in(ENDED))
                .values(
                    phase=Phase.STOPPING,
                    phase_since=now,
                    failure=sa.func.coalesce(instances.c.failure, None if by == "model" else reason),
                    timeline=instances.c.timeline.concat(
                        sa.cast([[Phase.STOPPING, now.isoformat()]], instances.c.timeline.type)
                    ),
                )
            )
        return action_id or 0

    async def refuse(
        self, run: Run, kind: str, *, intent_key: str, by: str, args: Mapping[str, Any], refusal: Refusal
    ) -> None:
        """See `ports.Ledger.refuse`."""
        async with self._database.in_session(run) as connection:
            await connection.execute(
                sa.insert(actions).values(
                    agent_id=run.agent_id,
                    run_id=run.run_id,
                    intent_key=intent_key,
                    kind=kind,
                    by=by,
                    args=dict(args),
                    state=ActionState.REFUSED,
                    refusal={"code": refusal.code, "sentence": refusal.sentence},
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
                .where(actions.c.id == action_id)
                .values(state=ActionState.FAILED, error=because, settled_at=now)
            )
            await connection.execute(
                sa.update(instances)
                .where(instances.c.action_id == action_id)
                .values(phase=Phase.FAILED, phase_since=now, failure=because, gone_at=now)
            )

    async def _outcome(
        self, lease: Lease, action_id: int, state: ActionState, error: str | None, provider_id: str | None
    ) -> None:
        async with self._database.owned(lease) as connection:
            await connection.execute(
                sa.update(actions)
                .where(actions.c.id == action_id)
                .values(state=state, error=error, provider_ref=provider_id, settled_at=NOW)
            )
            if provider_id is not None:
                await connection.execute(
                    sa.update(instances).where(instances.c.action_id == action_id).values(provider_id=provider_id)
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
        query = sa.select(actions).where(actions.c.agent_id == agent_id, actions.c.run_id == run_id)
        async with self._database.transaction() as connection:
            rows = (await connection.execute(query.order_by(actions.c.id))).all()
        return tuple(
            Action(
                id=r.id,
                run_id=r.run_id,
                kind=r.kind,
                state=ActionState(r.state),
                label=r.label,
                provider_ref=r.provider_ref,
                refusal_code=r.refusal["code"] if r.refusal else None,
                reason=str(r.args.get("reason", "")),
            )
            for r in rows
        )

    async def settle(self, lease: Lease, changes: Sequence[Change], now: datetime) -> None:
        """See `ports.Ledger.settle`."""
        async with self._database.owned(lease) as connection:
            await self._bill(connection, lease.agent_id, now)
            for change in changes:
                await write_change(connection, lease.agent_id, change, now)

    async def fail_host(self, lease: Lease, instance: Instance, because: str, now: datetime) -> None:
        """Leave this machine's host out for a while that grows with each failure."""
        async with self._database.owned(lease) as connection:
            await exclude_host(connection, lease.agent_id, instance, because, now)

    async def _bill(self, connection: AsyncConnection, agent_id: int, now: datetime) -> None:
        """Book what live machines cost since they were last billed, each day its share."""
        live = sa.select(instances.c.id, instances.c.usd_per_hour, instances.c.billed_until).where(
            instances.c.agent_id == agent_id, instances.c.phase.not_in(ENDED), instances.c.billed_until < now
        )
        for row in (await connection.execute(live)).all():
            for moment, usd in usd_between(row.usd_per_hour, row.billed_until, now):
                await book(connection, agent_id, moment.astimezone(UTC).date(), "fleet", usd)
        await connection.execute(
            sa.update(instances)
            .where(instances.c.agent_id == agent_id, instances.c.phase.not_in(ENDED), instances.c.billed_until < now)
            .values(billed_until=now)
        )

    async def sample(self, agent_id: int, at: datetime, figures: Mapping[str, Any]) -> None:
        """See `ports.Ledger.sample`."""
        async with self._database.transaction() as connection:
            await connection.execute(sa.insert(samples).values(agent_id=agent_id, at=at, **figures))
