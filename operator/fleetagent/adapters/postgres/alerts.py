"""Alerts: raised once for one trouble, told once, acknowledged by people, resolved when it is over."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import NOW, Database
from fleetagent.adapters.postgres.notices import TOLD, noted, raised, was_told_since
from fleetagent.adapters.postgres.tables import alerts
from fleetagent.adapters.postgres.waiting import persist_trigger
from fleetagent.domain.notices import SAID_AGAIN_AFTER, NoticeKind, is_graver, says_more
from fleetagent.domain.observation import Alert
from fleetagent.domain.records import Lease
from fleetagent.domain.schedule import Trigger


class PostgresAlerts:
    """The part of `ports.Runs` that concerns alerts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def acknowledge(self, agent_id: int, alert_id: int, comment: str, value: str) -> str:
        """See `ports.Runs.acknowledge`."""
        close = (
            sa.update(alerts)
            .where(alerts.c.agent_id == agent_id, alerts.c.id == alert_id, alerts.c.state == "open")
            .values(state="acknowledged", acknowledged_at=NOW, comment=comment)
            .returning(*TOLD)
            .cte("closed")
        )
        closed = sa.select(close.c.severity, close.c.message).add_cte(noted(close, NoticeKind.ACKNOWLEDGED, comment))
        known = sa.select(alerts.c.severity, alerts.c.message, alerts.c.state).where(
            alerts.c.agent_id == agent_id, alerts.c.id == alert_id
        )
        async with self._database.transaction() as connection:
            row = (await connection.execute(closed)).one_or_none() or (await connection.execute(known)).one_or_none()
            about = f"({row.severity}: {row.message})" if row is not None else "(unknown)"
            words = f"The operator acknowledges alert-{alert_id} {about}" + (f": {comment}" if comment else ".")
            await persist_trigger(connection, agent_id, Trigger.FEEDBACK, value, words)
        return words

    async def raise_alert(self, agent_id: int, run_id: int, code: str, severity: str, message: str) -> int | None:
        """See `ports.Runs.raise_alert`."""
        same = [alerts.c.agent_id == agent_id, alerts.c.code == code]
        if code == "Model":
            same += [alerts.c.state == "open", alerts.c.message == message]
        else:  # somebody who has acknowledged it knows of it, until it is over
            same.append(alerts.c.state.in_(("open", "acknowledged")))
        async with self._database.transaction() as connection:
            stands = (await connection.execute(sa.select(*TOLD, alerts.c.state).where(*same).limit(1))).first()
            if stands is None:
                new: int | None = await connection.scalar(raised(agent_id, run_id, code, severity, message))
                return new
            if stands.message != message or is_graver(severity, stands.severity):
                await _update(connection, stands, severity, message)
        return None

    async def tell_alerts(self, lease: Lease) -> tuple[Alert, ...]:
        """See `ports.Runs.tell_alerts`."""
        untold = (alerts.c.agent_id == lease.agent_id, alerts.c.told_at.is_(None))
        async with self._database.statements() as connection:  # nearly always there is none: no lock for that
            if (await connection.execute(sa.select(alerts.c.id).where(*untold).limit(1))).first() is None:
                return ()
        tell = sa.update(alerts).where(*untold).values(told_at=NOW)
        tell_them = tell.returning(alerts.c.id, alerts.c.code, alerts.c.severity, alerts.c.message, alerts.c.run_id)
        async with self._database.owned(lease) as connection:
            rows = (await connection.execute(tell_them)).all()
        return tuple(sorted((Alert(*row) for row in rows), key=lambda alert: alert.id))

    async def resolve_alerts(self, agent_id: int, code: str) -> None:
        """See `ports.Runs.resolve_alerts`."""
        over = (
            sa.update(alerts)
            .where(alerts.c.agent_id == agent_id, alerts.c.code == code, alerts.c.state.in_(("open", "acknowledged")))
            .values(state="resolved", resolved_at=NOW)
            .returning(*TOLD)
            .cte("over")
        )
        async with self._database.statements() as connection:
            await connection.execute(sa.select(over.c.id).add_cte(noted(over, NoticeKind.RESOLVED)))


async def _update(connection: AsyncConnection, stands: Any, severity: str, message: str) -> None:
    """The same trouble; its figures and machines are those of now. People outside hear of it where that is news."""
    its = alerts.c.agent_id == stands.agent_id, alerts.c.id == stands.id
    graver = is_graver(severity, stands.severity)
    severity = severity if graver else stands.severity
    changed = sa.update(alerts).where(*its).values(message=message, severity=severity).returning(*TOLD).cte("changed")
    remark = None
    if graver:
        remark = f"severity raised from {stands.severity} to {severity}"
    elif stands.state == "open" and says_more(message, stands.message):
        told_just_now = sa.select(was_told_since(stands.agent_id, stands.id, SAID_AGAIN_AFTER))
        if not await connection.scalar(told_just_now):
            remark = "it says more than before"
    news = sa.select(changed.c.id)
    await connection.execute(news if remark is None else news.add_cte(noted(changed, NoticeKind.ESCALATED, remark)))
