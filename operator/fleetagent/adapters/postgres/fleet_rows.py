"""Rows of machines, hosts and actions, to and from our words."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.tables import actions, agents, hosts, instances
from fleetagent.adapters.postgres.worker_tokens import token_hash_in
from fleetagent.domain.fleet import Instance, MarketStatus, Phase, Told
from fleetagent.domain.hosts import failures_left, left_out_for
from fleetagent.domain.records import Action, ActionState
from fleetagent.domain.settle import Change

INSTANCE = tuple(instances.c[each.name] for each in fields(Instance))
"""The columns that an instance is made of; the others are not read with each look."""


def instance_of(row: sa.Row[Any]) -> Instance:
    """A row of `instances`."""
    return Instance(
        label=row.label,
        provider_id=row.provider_id,
        phase=Phase(row.phase),
        phase_since=row.phase_since,
        requested_at=row.requested_at,
        machine_id=row.machine_id,
        gpu_name=row.gpu_name,
        num_gpus=row.num_gpus,
        cpu_ram_gb=row.cpu_ram_gb,
        cpu_cores=row.cpu_cores,
        usd_per_hour=row.usd_per_hour,
        expected_rate=row.expected_rate,
        measured_rate=row.measured_rate,
        market_status=MarketStatus(row.market_status) if row.market_status else None,
        absent_count=row.absent_count,
        absent_since=row.absent_since,
        confirmed_gone_at=row.confirmed_gone_at,
        destroy_asked_at=row.destroy_asked_at,
        failure=row.failure,
        told=_told_of(row.told),
        number=row.number,
    )


def _told_of(stored: Mapping[str, str]) -> Told:
    """What is not stored has not been told."""
    price, announced = stored.get("usd_per_hour"), stored.get("announced_usd_per_hour")
    status, silent_at = stored.get("status"), stored.get("silent_at")
    return Told(
        usd_per_hour=Decimal(price) if price is not None else None,
        announced_usd_per_hour=Decimal(announced) if announced is not None else None,
        status=MarketStatus(status) if status is not None else None,
        silent_at=datetime.fromisoformat(silent_at) if silent_at is not None else None,
    )


def _told_json(told: Told) -> dict[str, str]:
    named = {
        "usd_per_hour": told.usd_per_hour,
        "announced_usd_per_hour": told.announced_usd_per_hour,
        "status": told.status,
        "silent_at": told.silent_at and told.silent_at.isoformat(),
    }
    return {name: str(value) for name, value in named.items() if value is not None}


async def next_number(connection: AsyncConnection, agent_id: int) -> int:
    """The number of this agent's next machine: counted in its own row, as rows of machines are deleted in time."""
    counted = sa.update(agents).where(agents.c.id == agent_id).values(last_machine=agents.c.last_machine + 1)
    return int(await connection.scalar(counted.returning(agents.c.last_machine)) or 0)


def action_of(row: sa.Row[Any]) -> Action:
    """A row of `actions`."""
    return Action(
        id=row.id,
        run_id=row.run_id,
        kind=row.kind,
        state=ActionState(row.state),
        label=row.label,
        provider_ref=row.provider_ref,
        refusal_code=row.refusal["code"] if row.refusal else None,
        reason=str(row.args.get("reason", "")),
        what=row.wish["what"] if row.wish else None,
        usd_per_hour=row.usd_per_hour,
        proofs_per_hour=row.wish["proofs_per_hour"] if row.wish else None,
    )


async def write_change(connection: AsyncConnection, agent_id: int, change: Change, now: datetime) -> None:
    """Write one machine as a look at the market left it.

    The phase moves only if it still is what the look began with: a worker may have called meanwhile.
    """
    new = change.instance
    if change.adopted is not None:
        await _adopt(connection, agent_id, change, now)
        return
    seen = {
        "provider_id": sa.func.coalesce(new.provider_id, instances.c.provider_id),
        "market_status": new.market_status,
        "usd_per_hour": new.usd_per_hour,
        "absent_count": new.absent_count,
        "absent_since": new.absent_since,
        "confirmed_gone_at": new.confirmed_gone_at,
        "failure": sa.func.coalesce(instances.c.failure, new.failure),
        "told": _told_json(new.told),
        "phase_since": sa.func.least(instances.c.phase_since, now),
    }
    mine = (instances.c.agent_id == agent_id, instances.c.label == new.label)
    await connection.execute(sa.update(instances).where(*mine).values(**seen))
    ended = new.phase in {Phase.GONE, Phase.FAILED}
    before = [Phase.REQUESTED] if new.phase is Phase.LOADING else [p for p in Phase if p is not new.phase]
    if ended or new.phase is Phase.LOADING:
        await connection.execute(
            sa.update(instances)
            .where(*mine, instances.c.phase.in_(before))
            .values(
                phase=new.phase,
                phase_since=now,
                gone_at=now if ended else None,
                timeline=instances.c.timeline.concat(
                    sa.cast([[new.phase, now.isoformat()]], instances.c.timeline.type)
                ),
            )
        )
    if change.never_appeared or (new.phase is Phase.FAILED and new.market_status is None):
        await _settle_launch(connection, agent_id, new, ActionState.FAILED, now)
    elif new.provider_id is not None and new.absent_count == 0:
        await _settle_launch(connection, agent_id, new, ActionState.DONE, now)


async def _settle_launch(
    connection: AsyncConnection,
    agent_id: int,
    instance: Instance,
    state: ActionState,
    now: datetime,
    *,
    given_up: bool = False,
) -> None:
    """An intent whose result nobody knew, or that was given up, has one now."""
    failed = state is ActionState.FAILED
    open_states = [ActionState.INTENDED, ActionState.UNKNOWN, *([ActionState.FAILED] if given_up else [])]
    await connection.execute(
        sa.update(actions)
        .where(
            actions.c.agent_id == agent_id,
            actions.c.label == instance.label,
            actions.c.kind == "launch",
            actions.c.state.in_(open_states),
        )
        .values(
            state=state,
            provider_ref=sa.func.coalesce(instance.provider_id, actions.c.provider_ref),
            error=instance.failure if failed else actions.c.error,
            settled_at=now,
        )
    )


async def _adopt(connection: AsyncConnection, agent_id: int, change: Change, now: datetime) -> None:
    """A machine of ours that the ledger lacks, or had given up: known from now on."""
    new, rented = change.instance, change.adopted
    values = {
        "provider_id": new.provider_id,
        "phase": new.phase,
        "phase_since": now,
        "market_status": new.market_status,
        "usd_per_hour": new.usd_per_hour,
        "gone_at": None,
        "billed_until": now,
        "absent_count": 0,
        "absent_since": None,
        "confirmed_gone_at": None,
        "told": _told_json(new.told),
    }
    itself = rented is not None and rented.label == new.label
    row = insert(instances).values(
        agent_id=agent_id,
        label=new.label,
        number=await next_number(connection, agent_id),
        timeline=[[new.phase, now.isoformat()]],
        requested_at=now,
        machine_id=new.machine_id,
        gpu_name=new.gpu_name,
        num_gpus=new.num_gpus,
        cpu_ram_gb=new.cpu_ram_gb,
        cpu_cores=new.cpu_cores,
        expected_rate=new.expected_rate,
        worker_token_hash=token_hash_in(rented.worker_url) if rented is not None and itself else None,
        **values,
    )
    # what was to be destroyed once stays doomed, however late it shows up again; what proved goes on proving
    doomed = sa.or_(instances.c.destroy_asked_at.is_not(None), instances.c.phase == Phase.GONE)
    proved = sa.and_(instances.c.measured_rate > 0, instances.c.measured_rate >= instances.c.min_rate)
    phase = sa.case((doomed, Phase.STOPPING.value), (proved, Phase.PROVING.value), else_=new.phase.value)
    moved = sa.func.jsonb_build_array(sa.func.jsonb_build_array(phase, now.isoformat()))
    known_price = rented is not None and rented.usd_per_hour is not None
    again = {
        "phase": phase,
        "usd_per_hour": new.usd_per_hour if known_price else instances.c.usd_per_hour,
        "timeline": instances.c.timeline.concat(moved),
        "failure": sa.case((doomed, instances.c.failure), else_=sa.null()),
        "billed_until": instances.c.billed_until,  # it was there all the while, and cost what it costs
    }
    await connection.execute(
        row.on_conflict_do_update(
            index_elements=["label"], set_={**values, **again}, where=instances.c.agent_id == agent_id
        )
    )
    await _settle_launch(connection, agent_id, new, ActionState.DONE, now, given_up=True)


async def exclude_host(
    connection: AsyncConnection, agent_id: int, instance: Instance, because: str, now: datetime
) -> None:
    """Leave it out for as long as its failures make it; those of long ago count less."""
    key = {"machine_id": instance.machine_id, "gpu_name": instance.gpu_name, "num_gpus": instance.num_gpus}
    query = sa.select(hosts.c.failures, hosts.c.failed_at).where(
        hosts.c.agent_id == agent_id, *[hosts.c[name] == value for name, value in key.items()]
    )
    known = (await connection.execute(query)).one_or_none()
    failures = 1 + (failures_left(known.failures, known.failed_at, now) if known is not None else 0)
    values = {
        "failures": failures,
        "failed_at": now,
        "excluded_until": now + left_out_for(failures),
        "last_failure": because,
    }
    new = insert(hosts).values(agent_id=agent_id, **key, **values)
    await connection.execute(new.on_conflict_do_update(index_elements=["agent_id", *key], set_=values))
