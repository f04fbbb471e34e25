"""Alerts of code: opened while something lasts, closed when it is over, written only where that changes something."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from fleetagent.agent.alarms import WRITTEN_AGAIN_AFTER, Alarms
from support.memory import Memory

CODE = "CreditLow"
NOTHING_STANDS = Memory().record()
IT_STANDS = replace(NOTHING_STANDS, alerted=frozenset({CODE}))


@dataclass
class Written(Memory):
    """What was written about alerts, in order."""

    said: list[str] = field(default_factory=list)

    async def raise_alert(self, agent_id: int, run_id: int, code: str, severity: str, message: str) -> int | None:
        del agent_id, run_id, severity, message
        self.said.append(f"open {code}")
        return 1

    async def resolve_alerts(self, agent_id: int, code: str) -> None:
        del agent_id
        self.said.append(f"close {code}")


@dataclass
class Clock:
    now: datetime

    def __call__(self) -> datetime:
        return self.now


def alarms() -> tuple[Alarms, Written, Clock]:
    clock = Clock(NOTHING_STANDS.session.started_at)
    written: Any = Written()
    return Alarms(written, clock), written, clock


async def test_what_does_not_stand_is_not_closed() -> None:
    tell, written, clock = alarms()

    for _ in range(3):
        await tell.tell(NOTHING_STANDS, CODE, None)
        clock.now += 2 * WRITTEN_AGAIN_AFTER

    assert written.said == []


async def test_what_another_process_left_open_is_closed() -> None:
    tell, written, _ = alarms()

    await tell.tell(IT_STANDS, CODE, None)

    assert written.said == [f"close {CODE}"]


async def test_what_was_opened_after_the_row_was_read_is_closed() -> None:
    tell, written, _ = alarms()

    await tell.tell(NOTHING_STANDS, CODE, "top up")
    await tell.tell(NOTHING_STANDS, CODE, None)

    assert written.said == [f"open {CODE}", f"close {CODE}"]


async def test_what_lasts_is_written_once_a_minute_at_most() -> None:
    tell, written, clock = alarms()

    for seconds in (0, 1, 58, 2):
        clock.now += timedelta(seconds=seconds)
        await tell.tell(IT_STANDS, CODE, "top up")

    assert written.said == [f"open {CODE}"] * 2
