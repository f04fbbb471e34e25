"""When the spec calls for a run is planned in the agent's row, and planned again when that is wrong or missing."""

from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fleetagent.agent.subject import Subject, spec_hash
from fleetagent.agent.timetable import Timetable
from fleetagent.domain.records import Lease
from support.fleets import NOW
from support.manifests import a_fleet_agent
from support.memory import Memory

HOUR = timedelta(hours=1)


class Row:
    """What is planned, as it was written last."""

    written: tuple[datetime | None, ...] = ()

    async def schedule(self, _: Lease, next_at: datetime | None, __: str) -> None:
        self.written += (next_at,)


async def planned_anew(planned: datetime | None, schedule: dict[str, Any]) -> tuple[datetime | None, ...]:
    row = Row()
    agent = a_fleet_agent(spec={"schedule": schedule})
    record = replace(Memory().record(), spec_hash=spec_hash(agent.spec), next_scheduled_at=planned)
    keeping: Any = SimpleNamespace(agents=row, now=lambda: NOW)
    assert await Timetable(keeping).plan(Subject(agent, record, "fa/test/"), Lease(1, 1)) == bool(row.written)
    return row.written


async def test_a_schedule_that_could_not_be_planned_is_planned_as_soon_as_it_can_be() -> None:
    (at,) = await planned_anew(None, {"interval": "1h"})

    assert at is not None
    assert NOW < at <= NOW + HOUR


@pytest.mark.parametrize(
    ("planned", "schedule"),
    [(None, {"interval": None, "cron": "0 0 30 2 *"}), (NOW + HOUR / 2, {"interval": "1h"}), (NOW, {"interval": "1h"})],
    ids=["never comes", "is planned", "is due"],
)
async def test_what_is_planned_as_well_as_can_be_is_left_alone(
    planned: datetime | None, schedule: dict[str, Any]
) -> None:
    assert await planned_anew(planned, schedule) == ()


async def test_what_was_planned_while_the_clock_was_ahead_is_planned_anew() -> None:
    (at,) = await planned_anew(NOW + 30 * HOUR, {"interval": "1h"})

    assert at is not None
    assert at <= NOW + HOUR
