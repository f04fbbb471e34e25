"""What calls for runs: triggers and wakes, from the moment they are persisted until a run has served them.

A row stays `pending` while a run works on it (`claimed_by_run`), so that an interrupted run can give it back.
"""

import logging
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import NOW
from fleetagent.adapters.postgres.tables import actions, agents, alerts, runs, triggers, wakes
from fleetagent.adapters.postgres.wishes import OPEN_OR_UNTOLD, WAITS
from fleetagent.domain.records import ActionState, Outcome
from fleetagent.domain.schedule import Pending, Trigger, Wake

log = logging.getLogger(__name__)

MOST_GIVEN_BACK = 3
MOST_EVENTS_WAITING = 100


async def persist_trigger(
    connection: AsyncConnection, agent_id: int, kind: Trigger, value: str, words: str | None
) -> bool:
    """Insert a trigger unless the same one waits already, or is an annotation's value that has been served.

    What a person said is looked up under the lock of the agent's row, which the end of a run takes too: else a value
    that is served at this very moment would be said twice.
    """
    if kind is Trigger.EVENT and await _merged_into_a_full_queue(connection, agent_id, value, words):
        return True
    same = [
        triggers.c.agent_id == agent_id,
        triggers.c.kind == kind,
        triggers.c.value == value,
        triggers.c.state == "pending",
    ]
    if (handled := _handled(kind, value)) is None:
        same.append(triggers.c.claimed_by_run.is_(None))  # a run that goes on has seen an older world
    else:
        row = sa.select(agents.c.handled).where(agents.c.id == agent_id).with_for_update(key_share=True)
        name, said = handled
        if (await connection.scalar(row) or {}).get(name) == said:
            return False
    if (await connection.execute(sa.select(triggers.c.id).where(*same).limit(1))).first() is not None:
        return False
    await connection.execute(
        sa.insert(triggers).values(agent_id=agent_id, kind=kind, value=value, words=words, state="pending", at=NOW)
    )
    return True


async def _merged_into_a_full_queue(connection: AsyncConnection, agent_id: int, value: str, words: str | None) -> bool:
    """A fleet that changes all the time while nobody runs must not fill the database: the newest event gives way."""
    waiting = sa.select(sa.func.count(), sa.func.max(triggers.c.id)).where(
        triggers.c.agent_id == agent_id,
        triggers.c.kind == Trigger.EVENT,
        triggers.c.state == "pending",
        triggers.c.claimed_by_run.is_(None),
    )
    count, newest = (await connection.execute(waiting)).one()
    if count < MOST_EVENTS_WAITING:
        return False
    still_waits = triggers.c.agent_id == agent_id, triggers.c.id == newest, triggers.c.claimed_by_run.is_(None)
    merge = sa.update(triggers).where(*still_waits).values(value=value, words=words, at=NOW)
    return (await connection.execute(merge)).rowcount > 0


async def pending_triggers(connection: AsyncConnection, agent_id: int) -> tuple[Pending, ...]:
    """In the order in which they came."""
    query = sa.select(triggers).where(triggers.c.agent_id == agent_id, triggers.c.state == "pending")
    rows = (await connection.execute(query.order_by(triggers.c.id))).all()
    return tuple(Pending(r.id, Trigger(r.kind), r.value, r.words, r.at) for r in rows)


async def pending_wakes(connection: AsyncConnection, agent_id: int) -> tuple[Wake, ...]:
    """Soonest first."""
    query = sa.select(wakes).where(wakes.c.agent_id == agent_id, wakes.c.state == "pending")
    rows = (await connection.execute(query.order_by(wakes.c.at, wakes.c.id))).all()
    return tuple(Wake(r.id, r.at, r.reason, r.asked_by_run) for r in rows)


async def claim_waiting(
    connection: AsyncConnection, agent_id: int, run_id: int, now: datetime
) -> tuple[tuple[Pending, ...], tuple[Wake, ...]]:
    """All pending triggers and the wakes that are due belong to this run from now on."""
    pending = await pending_triggers(connection, agent_id)
    due = tuple(w for w in await pending_wakes(connection, agent_id) if w.at <= now)
    for table, ids in ((triggers, [p.id for p in pending]), (wakes, [w.id for w in due])):
        if ids:
            claim = sa.update(table).where(table.c.agent_id == agent_id, table.c.id.in_(ids))
            await connection.execute(claim.values(claimed_by_run=run_id, tries=table.c.tries + 1))
    return pending, due


async def serve(connection: AsyncConnection, agent_id: int, run_id: int, pending: Sequence[Pending]) -> None:
    """What the run claimed is served: triggers, wakes, and with them the annotations' values."""
    for table in (triggers, wakes):
        await connection.execute(
            sa.update(table)
            .where(table.c.agent_id == agent_id, table.c.state == "pending", table.c.claimed_by_run == run_id)
            .values(state="processed", processed_at=NOW)
        )
    await _mark_handled(connection, agent_id, [(p.kind, p.value) for p in pending])


async def close_interrupted(connection: AsyncConnection, agent_id: int, run_id: int, because: str) -> bool:
    """Mark a run that goes on as interrupted; what called for it calls again. False when it has ended already."""
    close = (
        sa.update(runs)
        .where(runs.c.agent_id == agent_id, runs.c.run_id == run_id, runs.c.state == "running")
        .values(state="interrupted", outcome=Outcome.INTERRUPTED, error=because, finished_at=NOW)
    )
    if (await connection.execute(close)).rowcount == 0:
        return False
    await _drop_hopeless(connection, agent_id, run_id)
    for table in (triggers, wakes):
        await connection.execute(
            sa.update(table)
            .where(table.c.agent_id == agent_id, table.c.state == "pending", table.c.claimed_by_run == run_id)
            .values(claimed_by_run=None)
        )
    return True


async def _drop_hopeless(connection: AsyncConnection, agent_id: int, run_id: int) -> None:
    """What was given back three times may be what interrupts the runs: it counts as served, and a person is told."""
    dropped: list[str] = []
    for table in (triggers, wakes):
        drop = (
            sa.update(table)
            .where(
                table.c.agent_id == agent_id,
                table.c.state == "pending",
                table.c.claimed_by_run == run_id,
                table.c.tries > MOST_GIVEN_BACK,
            )
            .values(state="dropped", processed_at=NOW)
        )
        if table is triggers:
            rows = (await connection.execute(drop.returning(triggers.c.kind, triggers.c.value))).all()
            await _mark_handled(connection, agent_id, [(Trigger(r.kind), r.value) for r in rows])
            dropped += [f"{r.kind} {r.value[:100]}" for r in rows]
        else:
            reasons = await connection.scalars(drop.returning(wakes.c.reason))
            dropped += [f"{Trigger.WAKE} {reason[:100]}" for reason in reasons.all()]
    if dropped:
        sentence = f"given up, its runs were interrupted {MOST_GIVEN_BACK + 1} times: {'; '.join(dropped)}"[:500]
        log.warning("agent %s run %s: %s", agent_id, run_id, sentence)
        alert = {"agent_id": agent_id, "run_id": run_id, "code": "TriggerGivenUp", "severity": "warning"}
        await connection.execute(sa.insert(alerts).values(**alert, message=sentence, state="open"))


async def forget_waiting(connection: AsyncConnection, agent_id: int) -> None:
    """The resource is gone: nobody shall be called for it any more, and nothing waits for a person."""
    await connection.execute(
        sa.update(actions)
        .where(actions.c.agent_id == agent_id, OPEN_OR_UNTOLD)
        .values(
            told_by_run=0,  # whoever has the name next hears nothing of it
            state=sa.case((WAITS, ActionState.EXPIRED.value), else_=actions.c.state),
            settled_at=sa.case((WAITS, NOW), else_=actions.c.settled_at),
        )
    )
    for table, state in ((wakes, "cancelled"), (triggers, "dropped")):
        await connection.execute(
            sa.update(table)
            .where(table.c.agent_id == agent_id, table.c.state == "pending")
            .values(state=state, processed_at=NOW)
        )


async def _mark_handled(connection: AsyncConnection, agent_id: int, served: Sequence[tuple[Trigger, str]]) -> None:
    values = dict(h for kind, value in served if (h := _handled(kind, value)) is not None)
    if values:
        await connection.execute(
            sa.update(agents).where(agents.c.id == agent_id).values(handled=agents.c.handled.concat(values))
        )


def _handled(kind: Trigger, value: str) -> tuple[str, str] | None:
    """Under which name an annotation's value is remembered as served, and how; None for what no annotation said."""
    if kind is Trigger.REQUEST:
        return "request", value
    if kind in {Trigger.FEEDBACK, Trigger.APPROVAL}:
        name, _, said = value.partition(":")
        return name, said
    return None
