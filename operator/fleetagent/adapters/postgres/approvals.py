"""Actions that wait for a person: held, approved, rejected, expired; each decision updates a row that still waits."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.intents import asked_columns
from fleetagent.adapters.postgres.tables import actions, agents
from fleetagent.adapters.postgres.waiting import persist_trigger
from fleetagent.adapters.postgres.wishes import OPEN_OR_UNTOLD, WAITS, waiting_of, wish_json
from fleetagent.domain.approval import APPROVED_FOR, Answer, Verdict, Wish
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Waiting
from fleetagent.domain.records import ActionState, Asked, Lease, Run
from fleetagent.domain.schedule import Trigger

VERDICTS = {
    ActionState.REJECTED: Verdict.REJECTED,
    ActionState.EXPIRED: Verdict.EXPIRED,
    ActionState.REFUSED: Verdict.REFUSED,
    ActionState.FAILED: Verdict.FAILED,
}


class PostgresApprovals:
    """Implements `ports.Approvals`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hold(self, run: Run, asked: Asked, wish: Wish, *, expires_at: datetime, now: datetime) -> Waiting:
        """See `ports.Approvals.hold`."""
        new = sa.insert(actions).values(
            **asked_columns(run, asked),
            state=ActionState.WAITING,
            label=wish.label,
            usd_per_hour=wish.usd_per_hour,
            wish=wish_json(wish),
            expires_at=expires_at,
            created_at=now,
        )
        async with self._database.in_session(run) as connection:
            return waiting_of((await connection.execute(new.returning(actions))).one())

    async def approve(
        self, agent_id: int, action_ids: Sequence[int], value: str, now: datetime
    ) -> tuple[tuple[Answer, ...], bool]:
        """See `ports.Approvals.approve`."""
        approve = (
            sa.update(actions)
            .where(*_waiting(agent_id, action_ids, now), actions.c.approved_at.is_(None))
            .values(approved_at=now, expires_at=sa.func.greatest(actions.c.expires_at, now + APPROVED_FOR))
            .returning(actions.c.id)
        )
        async with self._database.transaction() as connection:
            await _lock(connection, agent_id)
            new = set((await connection.scalars(approve)).all())
            answers = await _answers(connection, agent_id, action_ids, new, now)
            if not any(a.verdict is Verdict.APPROVED for a in answers):
                return answers, False
            words = ",".join(f"action-{a.action_id}" for a in answers if a.verdict is Verdict.APPROVED)
            called = await persist_trigger(connection, agent_id, Trigger.APPROVAL, f"approve:{value}", words)
        return answers, called

    async def reject(self, agent_id: int, action_ids: Sequence[int], now: datetime) -> tuple[Answer, ...]:
        """See `ports.Approvals.reject`."""
        reject = (
            sa.update(actions)
            .where(*_waiting(agent_id, action_ids, now))
            .values(state=ActionState.REJECTED, settled_at=now)
            .returning(actions.c.id)
        )
        async with self._database.transaction() as connection:
            await _lock(connection, agent_id)
            new = set((await connection.scalars(reject)).all())
            return await _answers(connection, agent_id, action_ids, new, now)

    async def expire(self, lease: Lease, now: datetime) -> tuple[Waiting, ...]:
        """See `ports.Approvals.expire`."""
        over = (actions.c.agent_id == lease.agent_id, OPEN_OR_UNTOLD, WAITS, actions.c.expires_at <= now)
        async with self._database.statements() as connection:  # nearly always there is none: no lock for that
            if (await connection.execute(sa.select(actions.c.id).where(*over).limit(1))).first() is None:
                return ()
        expire = sa.update(actions).where(*over).values(state=ActionState.EXPIRED, settled_at=now)
        async with self._database.owned(lease) as connection:
            rows = (await connection.execute(expire.returning(actions))).all()
        return tuple(sorted((waiting_of(r) for r in rows), key=lambda action: action.action_id))

    async def refuse_approved(self, run: Run, action_id: int, refusal: Refusal, now: datetime) -> bool:
        """See `ports.Approvals.refuse_approved`."""
        refuse = (
            sa.update(actions)
            .where(actions.c.agent_id == run.agent_id, actions.c.id == action_id, WAITS)
            .values(
                state=ActionState.REFUSED,
                refusal={"code": refusal.code, "sentence": refusal.sentence},
                executed_by_run=run.run_id,
                settled_at=now,
            )
        )
        async with self._database.in_session(run) as connection:
            return (await connection.execute(refuse)).rowcount > 0


def _waiting(agent_id: int, action_ids: Sequence[int], now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return actions.c.agent_id == agent_id, actions.c.id.in_(list(action_ids)), WAITS, actions.c.expires_at > now


async def _lock(connection: AsyncConnection, agent_id: int) -> None:
    """The agent's row first, as whoever holds its lease does: in another order two would wait for each other."""
    await connection.execute(sa.select(agents.c.id).where(agents.c.id == agent_id).with_for_update(key_share=True))


async def _answers(
    connection: AsyncConnection, agent_id: int, action_ids: Sequence[int], new: set[int], now: datetime
) -> tuple[Answer, ...]:
    """What has become of each of them, in the order in which they were named."""
    ours = sa.select(actions).where(actions.c.agent_id == agent_id, actions.c.id.in_(list(action_ids)))
    rows = {row.id: row for row in (await connection.execute(ours)).all()}
    verdicts = {i: _verdict(row, now) for i, row in rows.items()}
    if missing := [i for i in action_ids if i not in rows]:  # by way of the agents: no index leads by the id alone
        theirs = sa.select(actions.c.id).join(agents, agents.c.id == actions.c.agent_id)
        found = await connection.scalars(theirs.where(actions.c.id.in_(missing)))
        verdicts |= dict.fromkeys(found.all(), Verdict.NOT_OURS)
    return tuple(Answer(i, verdicts.get(i, Verdict.UNKNOWN), is_new=i in new) for i in action_ids)


def _verdict(row: sa.Row[Any], now: datetime) -> Verdict:
    if row.expires_at is None:
        return Verdict.NEVER_WAITED
    if row.state == ActionState.WAITING:
        return Verdict.APPROVED if row.approved_at is not None and row.expires_at > now else Verdict.EXPIRED
    return VERDICTS.get(ActionState(row.state), Verdict.DONE)
