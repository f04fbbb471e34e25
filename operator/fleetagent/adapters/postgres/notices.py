"""The outbox of alerts: each thing that happens to one is written with it, claimed to be sent, and marked off."""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from fleetagent.adapters.postgres.database import NOW, Database
from fleetagent.adapters.postgres.tables import alerts, notifications
from fleetagent.domain.notices import REMINDED_EVERY, SAID_AGAIN_AFTER, Notice, NoticeKind
from fleetagent.domain.records import AgentKey
from fleetagent.errors import LeaseLost
from fleetagent.ports.notices import Claim

CLAIMED_FOR = timedelta(minutes=2)
"""Longer than one message takes; each that is taken claims the rest anew."""
MOST_CLAIMED = 200
STILL_OPEN = "still open, and nobody has acknowledged it"

TOLD = alerts.c.agent_id, alerts.c.id, alerts.c.severity, alerts.c.message
"""What is told of an alert."""

_FREE = {"claimed_by": None, "claimed_until": None}


def raised(agent_id: int, run_id: int, code: str, severity: str, message: str) -> sa.Select[tuple[int]]:
    """A statement that opens an alert, and writes down that it is to be told; the alert's id."""
    given = {"agent_id": agent_id, "run_id": run_id, "code": code, "severity": severity, "message": message}
    new = sa.insert(alerts).values(**given, state="open").returning(*TOLD).cte("raised")
    return sa.select(new.c.id).add_cte(noted(new, NoticeKind.NEW))


def noted(alert: sa.CTE, kind: NoticeKind, remark: str | None = None) -> sa.CTE:
    """For the statement that has changed an alert: what is told of it, once."""
    told = notifications.alias("told")
    before = sa.select(sa.func.count()).where(
        told.c.agent_id == alert.c.agent_id, told.c.alert_id == alert.c.id, told.c.kind == kind
    )
    nth = before.scalar_subquery() if kind is NoticeKind.ESCALATED else sa.literal(0)
    columns = alert.c.agent_id, alert.c.id, sa.literal(kind.value), nth, alert.c.severity, alert.c.message
    chosen = sa.select(*columns, sa.cast(sa.literal(remark), sa.Text))
    names = ["agent_id", "alert_id", "kind", "nth", "severity", "message", "remark"]
    return (
        insert(notifications)
        .from_select(names, chosen)
        .on_conflict_do_nothing()
        .returning(notifications.c.id)
        .cte("noted")
    )


def was_told_since(agent_id: int, alert_id: int, span: timedelta) -> sa.Exists:
    """Whether something was told of the alert within this time."""
    of_it = notifications.c.agent_id == agent_id, notifications.c.alert_id == alert_id
    return sa.select(notifications.c.id).where(*of_it, notifications.c.at > NOW - span).exists()


_NAMED = "g.cluster = :its_cluster AND g.namespace = :its_namespace AND g.name = :its_name AND g.deleted_at IS NULL"

_DUE = sa.text("""
    SELECT DISTINCT g.namespace, g.name FROM notifications n JOIN agents g ON g.id = n.agent_id
    WHERE n.state = 'waiting' AND n.next_try_at <= clock_timestamp()
        AND (n.claimed_until IS NULL OR n.claimed_until <= clock_timestamp())
        AND g.cluster = :its_cluster AND g.deleted_at IS NULL
""").bindparams(sa.bindparam("its_cluster", type_=sa.Text))

_WAITING = sa.text(f"""
    SELECT count(*) FROM notifications n JOIN agents g ON g.id = n.agent_id WHERE n.state = 'waiting' AND {_NAMED}
""")  # noqa: S608 - nobody's input

# Two that claim at once wait for each other's rows, and the later one finds them claimed.
_CLAIM = sa.text(f"""
    WITH first AS (
        SELECT n.agent_id, n.id FROM notifications n JOIN agents g ON g.id = n.agent_id
        WHERE n.state = 'waiting' AND {_NAMED} AND NOT EXISTS (
            SELECT 1 FROM notifications o
            WHERE o.agent_id = g.id AND o.state = 'waiting' AND o.claimed_until > clock_timestamp()
        )
        ORDER BY n.id LIMIT {MOST_CLAIMED}
    )
    UPDATE notifications n SET claimed_by = :claim, claimed_until = clock_timestamp() + :length
    FROM first, alerts a
    WHERE n.agent_id = first.agent_id AND n.id = first.id AND a.agent_id = n.agent_id AND a.id = n.alert_id
        AND n.state = 'waiting' AND (n.claimed_until IS NULL OR n.claimed_until <= clock_timestamp())
    RETURNING n.agent_id, n.id, n.alert_id, n.kind, a.run_id, a.code, n.severity, n.message, n.remark,
        a.created_at, n.at, n.taken_by
""")  # noqa: S608 - nobody's input

_REMIND = sa.text("""
    INSERT INTO notifications (agent_id, alert_id, kind, nth, severity, message, remark)
    SELECT a.agent_id, a.id, 'escalated', told.escalated, a.severity, a.message, :still_open
    FROM alerts a JOIN agents g ON g.id = a.agent_id CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE kind = 'escalated') AS escalated, max(done_at) AS done_at,
            bool_and(state <> 'waiting') AND bool_or(state IN ('sent', 'given_up')) AS is_known
        FROM notifications n WHERE n.agent_id = a.agent_id AND n.alert_id = a.id
    ) AS told
    WHERE g.cluster = :its_cluster AND g.deleted_at IS NULL AND a.state = 'open' AND a.severity <> 'info'
        AND told.is_known
        AND told.done_at <= clock_timestamp() - CASE WHEN told.escalated = 0 THEN :first ELSE :later END
    ON CONFLICT DO NOTHING
""").bindparams(
    sa.bindparam("its_cluster", type_=sa.Text),
    sa.bindparam("still_open", type_=sa.Text),
    sa.bindparam("first", type_=sa.Interval),
    sa.bindparam("later", type_=sa.Interval),
)


class PostgresOutbox:
    """Implements `ports.notices.Outbox`."""

    def __init__(self, database: Database, *, cluster: str) -> None:
        self._database = database
        self._cluster = cluster

    async def due(self) -> frozenset[AgentKey]:
        """See `ports.notices.Outbox.due`."""
        async with self._database.statements() as connection:
            rows = (await connection.execute(_DUE, {"its_cluster": self._cluster})).all()
        return frozenset(AgentKey(row.namespace, row.name) for row in rows)

    async def waiting(self, key: AgentKey) -> int:
        """See `ports.notices.Outbox.waiting`."""
        async with self._database.statements() as connection:
            return int(await connection.scalar(_WAITING, self._its(key)) or 0)

    async def claim(self, key: AgentKey) -> Claim | None:
        """See `ports.notices.Outbox.claim`."""
        mark = secrets.token_hex(8)
        async with self._database.statements() as connection:
            given = {**self._its(key), "claim": mark, "length": CLAIMED_FOR}
            rows = (await connection.execute(_CLAIM, given)).all()
        if not rows:
            return None
        notices = sorted((_notice(row) for row in rows), key=lambda notice: notice.id)
        return Claim(rows[0].agent_id, mark, tuple(notices))

    async def taken(self, claim: Claim, ids: Sequence[int], mark: str) -> None:
        """See `ports.notices.Outbox.taken`."""
        taken_by = notifications.c.taken_by.concat(sa.literal([mark], notifications.c.taken_by.type))
        await self._write(claim, ids, taken_by=taken_by)
        async with self._database.statements() as connection:
            rest = sa.update(notifications).where(*_held(claim))
            await connection.execute(rest.values(claimed_until=NOW + CLAIMED_FOR))

    async def sent(self, claim: Claim, ids: Sequence[int]) -> None:
        """See `ports.notices.Outbox.sent`."""
        await self._write(claim, ids, state="sent", done_at=NOW, **_FREE)

    async def put_back(self, claim: Claim, ids: Sequence[int], wait: timedelta, error: str | None) -> None:
        """See `ports.notices.Outbox.put_back`."""
        await self._write(claim, ids, next_try_at=NOW + wait, error=error, **_FREE)

    async def give_up(self, claim: Claim, ids: Sequence[int], error: str) -> None:
        """See `ports.notices.Outbox.give_up`."""
        await self._write(claim, ids, state="given_up", done_at=NOW, error=error, **_FREE)

    async def unwanted(self, key: AgentKey) -> None:
        """See `ports.notices.Outbox.unwanted`."""
        claim = await self.claim(key)
        if claim is not None:
            ids = [notice.id for notice in claim.notices]
            await self._write(claim, ids, state="not_wanted", done_at=NOW, **_FREE)

    async def remind(self) -> None:
        """See `ports.notices.Outbox.remind`."""
        spans = {"first": SAID_AGAIN_AFTER, "later": REMINDED_EVERY}
        async with self._database.statements() as connection:
            await connection.execute(_REMIND, {"its_cluster": self._cluster, "still_open": STILL_OPEN, **spans})

    async def _write(self, claim: Claim, ids: Sequence[int], **values: Any) -> None:
        if not ids:
            return
        change = sa.update(notifications).where(*_held(claim), notifications.c.id.in_(ids)).values(**values)
        async with self._database.statements() as connection:
            if not (await connection.execute(change)).rowcount:
                raise LeaseLost("another process sends this agent's alerts now")

    def _its(self, key: AgentKey) -> dict[str, str]:
        return {"its_cluster": self._cluster, "its_namespace": key.namespace, "its_name": key.name}


def _held(claim: Claim) -> tuple[sa.ColumnElement[bool], ...]:
    its = notifications.c
    return its.agent_id == claim.agent_id, its.state == "waiting", its.claimed_by == claim.mark


def _notice(row: sa.Row[Any]) -> Notice:
    return Notice(
        id=row.id,
        alert_id=row.alert_id,
        kind=NoticeKind(row.kind),
        run_id=row.run_id,
        code=row.code,
        severity=row.severity,
        message=row.message,
        remark=row.remark,
        since=row.created_at,
        at=row.at,
        taken_by=frozenset(row.taken_by),
    )
