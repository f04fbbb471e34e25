"""Alerts that code opens while something lasts, and closes when it is over; written when that changes."""

from datetime import datetime, timedelta

from fleetagent.agent.clock import Now
from fleetagent.domain.records import AgentRecord
from fleetagent.ports import Runs

WRITTEN_AGAIN_AFTER = timedelta(minutes=1)
"""Another process may have told it otherwise meanwhile."""


class Alarms:
    """One for the process; what it remembers only spares writes."""

    def __init__(self, runs: Runs, now: Now) -> None:
        self._runs = runs
        self._now = now
        self._told: dict[tuple[int, str], tuple[bool, datetime]] = {}

    async def tell(self, record: AgentRecord, code: str, words: str | None) -> None:
        """Open the alert of this code with these words, or close it where there are none.

        What does not stand need not be closed: the agent's row tells, and what was told since it was read.
        """
        now, is_on, agent_id = self._now(), words is not None, record.id
        was_on, at = self._told.get((agent_id, code), (None, now))
        if was_on is is_on and timedelta(0) <= now - at < WRITTEN_AGAIN_AFTER:
            return
        if words is not None:
            await self._runs.raise_alert(agent_id, 0, code, "warning", words)
        elif was_on or code in record.alerted:
            await self._runs.resolve_alerts(agent_id, code)
        self._told[agent_id, code] = is_on, now
