"""What calls for runs: triggers and wakes, from the moment they are persisted until a run has served them.

A row stays `pending` while a run works on it (`claimed_by_run`), so that an interrupted run can give it back.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import NOW, fenced
from fleetagent.adapters.postgres.notices import raised
from fleetagent.adapters.postgres.tables import actions, agents, notifications, runs, triggers, wakes
from fleetagent.adapters.postgres.wishes import OPEN_OR_UNTOLD, WAITS
from fleetagent.domain.records import ActionState, Outcome
from fleetagent.domain.schedule import Pending, Trigger, Wake

log = logging.getLogger(__name__)

MOST_GIVEN_BACK = 3
MOST_EVENTS_WAITING = 100


# What a person said is written under the lock of the agent's row, which the end of a run takes too: else a value that
# is served at this very moment would be said twice. Whoever says the same at the same time meets the unique index.
_SAID = sa.text("""
    WITH agent AS (SELECT id, handled FROM agents WHERE id = :agent FOR NO KEY UPDATE)
    INSERT INTO triggers (agent_id, kind, value, words, state, at)
    SELECT id, :kind, :value, :words, 'pending', clock_timestamp() FROM agent
    WHERE handled ->> :name IS DISTINCT FROM :said
    ON CONFLICT (agent_id, kind, value) WHERE state = 'pending' AND kind IN ('Request', 'Feedback', 'Approval')
    DO NOTHING
    RETURNING id
""").bindparams(*(sa.bindparam(name, type_=sa.Text) for name in ("kind", "value", "words", "name", "said")))

# A run that goes on has seen an older world: what it claimed does not count.
_CALLED = sa.text("""
    INSERT INTO triggers (agent_id, kind, value, words, state, at)
    SELECT :agent, :kind, :value, :words, 'pending', clock_timestamp()
    WHERE NOT EXISTS (
        SELECT 1 FROM triggers
        WHERE agent_id = :agent AND state = 'pending' AND claimed_by_run IS NULL AND kind = :kind AND value = :value
    )
    RETURNING id
""").bindparams(
    sa.bindparam("agent", type_=sa.BigInteger), *(sa.bindparam(n, type_=sa.Text) for n in ("kind", "value", "words"))
)


CALLED_BY_OWNER = fenced("""called AS (
    INSERT INTO triggers (agent_id, kind, value, state, at)
    SELECT held.id, :its_kind, :its_value, 'pending', clock_timestamp() FROM held
    WHERE NOT EXISTS (
        SELECT 1 FROM triggers t WHERE t.agent_id = held.id AND t.state = 'pending' AND t.claimed_by_run IS NULL
            AND t.kind = :its_kind AND t.value = :its_value
    )
) SELECT epoch FROM held""").bindparams(*(sa.bindparam(n, type_=sa.Text) for n in ("its_kind", "its_value")))
"""The same for what the owner calls for: a process that was passed over must not, its call may have been served."""


async def persist_trigger(
    connection: AsyncConnection, agent_id: int, kind: Trigger, value: str, words: str | None
) -> bool:
    """Insert a trigger unless the same one waits already, or is an annotation's value that has been served.

    Of Events, several statements: these need a transaction.
    """
    if kind is Trigger.EVENT and await _merged_into_a_full_queue(connection, agent_id, value, words):
        return True
    given = {"agent": agent_id, "kind": kind.value, "value": value, "words": words}
    if (handled := _handled(kind, value)) is not None:
        name, said = handled
        return await connection.scalar(_SAID, {**given, "name": name, "said": said}) is not None
    return await connection.scalar(_CALLED, given) is not None


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
    return tuple(Pending(r.id, Trigger(r.kind), r.value, r.words, r.at, r.claimed_by_run is not None) for r in rows)


async def pending_wakes(connection: AsyncConnection, agent_id: int) -> tuple[Wake, ...]:
    """Soonest first."""
    query = sa.select(wakes).where(wakes.c.agent_id == agent_id, wakes.c.state == "pending")
    rows = (await connection.execute(query.order_by(wakes.c.at, wakes.c.id))).all()
    return tuple(Wake(r.id, r.at, r.reason, r.asked_by_run, r.claimed_by_run is not None) for r in rows)


def pending_in(rows: Sequence[Mapping[str, Any]] | None) -> tuple[Pending, ...]:
    """Triggers as the database makes JSON of them, in the order in which they came."""
    found = (
        Pending(r["id"], Trigger(r["kind"]), r["value"], r["words"], datetime.fromisoformat(r["at"]))
        for r in rows or ()
    )
    return tuple(sorted(found, key=lambda trigger: trigger.id))


def wakes_in(rows: Sequence[Mapping[str, Any]] | None) -> tuple[Wake, ...]:
    """Wakes likewise, soonest first."""
    found = (Wake(r["id"], datetime.fromisoformat(r["at"]), r["reason"], r["asked_by_run"]) for r in rows or ())
    return tuple(sorted(found, key=lambda wake: (wake.at, wake.id)))


async def close_interrupted(
    connection: AsyncConnection, agent_id: int, run_id: int, because: str, *, wanted: bool = False
) -> bool:
    """Mark a run that goes on as interrupted; what called for it calls again. False when it has ended already.

    When somebody wanted it to end, what called for it is not to blame: it was no try.
    """
    close = (
        sa.update(runs)
        .where(runs.c.agent_id == agent_id, runs.c.run_id == run_id, runs.c.state == "running")
        .values(state="interrupted", outcome=Outcome.INTERRUPTED, error=because, finished_at=NOW)
    )
    if (await connection.execute(close)).rowcount == 0:
        return False
    if not wanted:
        await _drop_hopeless(connection, agent_id, run_id)
    for table in (triggers, wakes):
        await connection.execute(
            sa.update(table)
            .where(table.c.agent_id == agent_id, table.c.state == "pending", table.c.claimed_by_run == run_id)
            .values(claimed_by_run=None, tries=table.c.tries - int(wanted))
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
        await connection.execute(raised(agent_id, run_id, "TriggerGivenUp", "warning", sentence))


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
    untold = notifications.c.agent_id == agent_id, notifications.c.state == "waiting"
    await connection.execute(sa.update(notifications).where(*untold).values(state="not_wanted", done_at=NOW))


async def _mark_handled(connection: AsyncConnection, agent_id: int, served: Sequence[tuple[Trigger, str]]) -> None:
    if values := handled_by(served):
        await connection.execute(
            sa.update(agents).where(agents.c.id == agent_id).values(handled=agents.c.handled.concat(values))
        )


def handled_by(served: Sequence[tuple[Trigger, str]]) -> dict[str, str]:
    """The annotations' values that are served with these triggers, by the names under which they are remembered."""
    return dict(h for kind, value in served if (h := _handled(kind, value)) is not None)


def _handled(kind: Trigger, value: str) -> tuple[str, str] | None:
    """Under which name an annotation's value is remembered as served, and how; None for what no annotation said."""
    if kind is Trigger.REQUEST:
        return "request", value
    if kind in {Trigger.FEEDBACK, Trigger.APPROVAL}:
        name, _, said = value.partition(":")
        return name, said
    return None
