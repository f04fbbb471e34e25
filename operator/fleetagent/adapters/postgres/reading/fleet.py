"""Machines, hosts, and the fleet and its cost over time."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.database import NOW
from fleetagent.adapters.postgres.reading.rows import view
from fleetagent.adapters.postgres.reading.seek import Trail
from fleetagent.adapters.postgres.reading.walk import Walk, page_of
from fleetagent.adapters.postgres.tables import TIME, hosts, instances, samples, spend
from fleetagent.domain.fleet import ENDED
from fleetagent.domain.views import HostView, MachineView, Page, PhaseAt, SampleView, SpendView
from fleetagent.ports.reading import Slice

MOST_HOSTS = 500

MACHINE = (
    instances.c.id,
    instances.c.number,
    instances.c.label,
    instances.c.provider_id,
    instances.c.phase,
    instances.c.phase_since,
    instances.c.timeline.label("phases"),
    instances.c.requested_at,
    instances.c.gone_at,
    instances.c.machine_id.label("host_id"),
    instances.c.gpu_name,
    instances.c.num_gpus,
    instances.c.usd_per_hour,
    instances.c.expected_rate,
    instances.c.measured_rate,
    instances.c.min_rate,
    instances.c.market_status,
    instances.c.failure,
)
SAMPLE = (
    samples.c.at,
    samples.c.proving,
    samples.c.on_the_way,
    samples.c.proofs_per_hour,
    samples.c.projected_proofs_per_hour,
    samples.c.target_proofs_per_hour,
    samples.c.usd_per_hour,
)
_MACHINES = Trail("machines", instances.c.agent_id, instances.c.id, instances.c.requested_at)

TODAY = sa.cast(sa.func.timezone("UTC", NOW), sa.Date)


async def machines_page(connection: AsyncConnection, agent_id: int, which: Slice, *, ended: bool) -> Page[MachineView]:
    """See `ports.Reading.machines`."""
    walk = Walk(_MACHINES, MACHINE, indexed=() if ended else (instances.c.phase.not_in(ENDED),))
    rows, after = await page_of(connection, walk, agent_id, which)
    return Page(items=tuple(_machine(row) for row in rows), next=after)


def _machine(row: sa.RowMapping) -> MachineView:
    return view(MachineView, row, timeline=tuple(PhaseAt(phase=phase, at=at) for phase, at in row["phases"]))


async def hosts_of(connection: AsyncConnection, agent_id: int) -> tuple[HostView, ...]:
    """See `ports.Reading.hosts`: those that something happened to last come first."""
    known = sa.or_(hosts.c.measured_at.is_not(None), hosts.c.failed_at.is_not(None))
    query = sa.select(hosts, hosts.c.machine_id.label("host_id")).where(hosts.c.agent_id == agent_id, known)
    newest = sa.func.greatest(hosts.c.measured_at, hosts.c.failed_at).desc()
    rows = (await connection.execute(query.order_by(newest, hosts.c.id).limit(MOST_HOSTS))).mappings().all()
    return tuple(view(HostView, row) for row in rows)


async def spend_of(connection: AsyncConnection, agent_id: int, days: int) -> tuple[SpendView, ...]:
    """See `ports.Reading.spend`; a day on which nothing was booked is left out."""
    query = sa.select(spend).where(spend.c.agent_id == agent_id, spend.c.day > TODAY - days)
    return days_of((await connection.execute(query)).mappings().all())


def days_of(rows: Iterable[sa.RowMapping]) -> tuple[SpendView, ...]:
    """Rows of one agent by day, newest first."""
    booked: dict[date, dict[str, sa.RowMapping]] = {}
    for row in rows:
        booked.setdefault(row["day"], {})[row["kind"]] = row
    return tuple(_day(day, booked[day]) for day in sorted(booked, reverse=True))


def _day(day: date, kinds: dict[str, sa.RowMapping]) -> SpendView:
    fleet, model = kinds.get("fleet"), kinds.get("model")
    return SpendView(
        day=day,
        fleet_usd=fleet["usd"] if fleet is not None else Decimal(0),
        model_usd=model["usd"] if model is not None else Decimal(0),
        model_tokens=model["tokens"] if model is not None else 0,
    )


async def samples_of(
    connection: AsyncConnection, agent_id: int, since: datetime, until: datetime, most: int
) -> tuple[SampleView, ...]:
    """See `ports.Reading.samples`: the last of each of so many equal spans, where there are more than that."""
    if since >= until or most < 1:
        return ()
    query = sa.select(*SAMPLE).where(samples.c.agent_id == agent_id, samples.c.at >= since, samples.c.at < until)
    rows = (await connection.execute(query.order_by(samples.c.at).limit(most + 1))).mappings().all()
    if len(rows) > most:
        rows = (await connection.execute(_thinned(agent_id, since, until, most))).mappings().all()
    return tuple(view(SampleView, row) for row in rows)


def _thinned(agent_id: int, since: datetime, until: datetime, most: int) -> sa.Select[Any]:
    span: timedelta = (until - since) / most
    nth = sa.func.generate_series(0, most - 1).table_valued("n", name="span").render_derived()
    begin = sa.literal(since, TIME) + nth.c.n * sa.literal(span, sa.Interval())
    of_it = (
        samples.c.agent_id == agent_id,
        samples.c.at >= begin,
        samples.c.at < begin + sa.literal(span, sa.Interval()),
    )
    last = sa.select(*SAMPLE).where(*of_it).order_by(samples.c.at.desc()).limit(1).lateral("last")
    return sa.select(last).select_from(nth.join(last, sa.true())).order_by(last.c.at)
