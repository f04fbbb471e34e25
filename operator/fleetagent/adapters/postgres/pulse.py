"""What guardrails count: read before each action and at each look, so the queries are put together once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.tables import actions, alerts, hosts, instances, spend
from fleetagent.adapters.postgres.wishes import OPEN_OR_UNTOLD, decided_of, waiting_of
from fleetagent.domain.approval import waits
from fleetagent.domain.fleet import ENDED
from fleetagent.domain.observation import ALERTS_SHOWN, Alert
from fleetagent.domain.rates import KIND_LIFE, RATE_LIFE, HostKey, rate_of_host, rates_of_kinds
from fleetagent.domain.records import EFFECTS, ActionState, Pulse
from fleetagent.domain.settlement import NEVER_APPEARED

DENIED_FOR = timedelta(minutes=15)
"""How long an offer is left alone that was gone, or of which no machine came: a market goes on listing it."""

_AGENT: sa.BindParameter[Any] = sa.bindparam("agent")
_RUN: sa.BindParameter[Any] = sa.bindparam("run")


def _booked(kind: str, figure: sa.Column[Any]) -> sa.ScalarSelect[Any]:
    """One figure of today's bill; null when nothing was booked."""
    query = sa.select(figure).where(spend.c.agent_id == _AGENT, spend.c.day == sa.bindparam("today"))
    return query.where(spend.c.kind == kind).scalar_subquery()


def _unbooked() -> sa.ScalarSelect[Any]:
    """What live machines cost today since they were last billed."""
    since = sa.func.greatest(instances.c.billed_until, sa.bindparam("midnight", type_=instances.c.billed_until.type))
    now = sa.bindparam("now", type_=instances.c.billed_until.type)
    hours = sa.func.greatest(sa.extract("epoch", now - since), 0) / 3600
    query = sa.select(sa.func.sum(instances.c.usd_per_hour * hours))
    return query.where(instances.c.agent_id == _AGENT, instances.c.phase.not_in(ENDED)).scalar_subquery()


_HOSTS = sa.select(
    hosts.c.machine_id,
    hosts.c.gpu_name,
    hosts.c.num_gpus,
    hosts.c.cpu_ram_gb,
    hosts.c.rates,
    hosts.c.measured_at,
    hosts.c.excluded_until,
).where(
    hosts.c.agent_id == _AGENT,
    sa.or_(
        hosts.c.excluded_until > sa.bindparam("now", type_=hosts.c.excluded_until.type),
        hosts.c.measured_at > sa.bindparam("measured_since", type_=hosts.c.measured_at.type),
    ),
)

_DENIED = sa.select(actions.c.args["offer_id"].astext.label("offer_id")).where(
    actions.c.agent_id == _AGENT,
    actions.c.kind == "launch",
    actions.c.state == ActionState.FAILED,
    sa.or_(actions.c.error.startswith("OfferGone"), actions.c.error == NEVER_APPEARED),
    actions.c.created_at > sa.bindparam("denied_since", type_=actions.c.created_at.type),
)


def _listed(rows: sa.Select[Any], named: str) -> sa.ScalarSelect[Any]:
    """All of them as one value; null when there are none."""
    each = rows.subquery(named)
    return sa.select(sa.func.jsonb_agg(sa.func.to_jsonb(each.table_valued()))).select_from(each).scalar_subquery()


def _numbers() -> sa.Select[Any]:
    """One row, one statement: what is booked and what is not must be of the same moment, and each look asks for it."""
    launches, of_this_run = actions.c.kind == "launch", actions.c.run_id == _RUN
    stops, last_hour = actions.c.kind == "stop", actions.c.created_at > sa.bindparam("hour_ago")
    open_alerts = sa.select(sa.func.count()).where(alerts.c.agent_id == _AGENT, alerts.c.state == "open")
    untold = sa.select(sa.func.count()).where(actions.c.agent_id == _AGENT, OPEN_OR_UNTOLD)
    return sa.select(
        sa.func.count().filter(launches, of_this_run).label("launches_this_run"),
        sa.func.count().filter(stops, of_this_run).label("stops_this_run"),
        sa.func.count().filter(launches, last_hour).label("launches_last_hour"),
        _booked("fleet", spend.c.usd).label("fleet_usd"),
        _unbooked().label("unbooked_usd"),
        _booked("model", spend.c.tokens).label("model_tokens"),
        open_alerts.scalar_subquery().label("open_alerts"),
        untold.scalar_subquery().label("untold"),
        _listed(_HOSTS, "known_host").label("hosts"),
        _listed(_DENIED, "denied_offer").label("denied"),
    ).where(actions.c.agent_id == _AGENT, actions.c.state.in_(EFFECTS), sa.or_(of_this_run, last_hour))


_OPEN = (
    sa.select(alerts.c.id, alerts.c.code, alerts.c.severity, alerts.c.message)
    .where(alerts.c.agent_id == _AGENT, alerts.c.state == "open")
    .order_by(alerts.c.id.desc())
    .limit(ALERTS_SHOWN)
)


_NUMBERS = _numbers()

_HELD = sa.select(actions).where(actions.c.agent_id == _AGENT, OPEN_OR_UNTOLD).order_by(actions.c.id)


@dataclass(frozen=True, slots=True)
class _Host:
    """What is remembered of one host."""

    key: HostKey
    cpu_ram_gb: float | None
    rates: list[Any]
    measured_at: datetime | None
    excluded_until: datetime | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "_Host":
        """Of a row as JSON."""
        key = (row["machine_id"], row["gpu_name"], row["num_gpus"])
        return cls(key, row["cpu_ram_gb"], row["rates"], _time(row["measured_at"]), _time(row["excluded_until"]))


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _excluded(found: Sequence[_Host], now: datetime) -> dict[str, datetime]:
    """By machine, until the latest moment of any of its kinds."""
    latest: dict[str, datetime] = {}
    for host in found:
        if host.excluded_until is not None and host.excluded_until > now:
            latest[host.key[0]] = max(host.excluded_until, latest.get(host.key[0], host.excluded_until))
    return latest


async def read_pulse(connection: AsyncConnection, agent_id: int, run_id: int, now: datetime) -> Pulse:
    """The counts of this moment."""
    today = now.astimezone(UTC).date()
    given = {
        "agent": agent_id,
        "run": run_id,
        "now": now,
        "hour_ago": now - timedelta(hours=1),
        "today": today,
        "midnight": datetime.combine(today, time.min, tzinfo=UTC),
        "measured_since": now - RATE_LIFE,
        "denied_since": now - DENIED_FOR,
    }
    numbers = (await connection.execute(_NUMBERS, given)).one()
    found = [_Host.of(row) for row in numbers.hosts or ()]
    measured = [h for h in found if h.measured_at is not None and h.measured_at > now - RATE_LIFE]
    known = [(h.key, h, rate_of_host(h.rates, h.key[2])) for h in measured]
    host_rates = {key: rate for key, _, rate in known if rate is not None}
    of_kinds = [
        (key, h.cpu_ram_gb, host_rates[key])
        for key, h, _ in known
        if key in host_rates and h.measured_at is not None and h.measured_at > now - KIND_LIFE
    ]
    opened = (await connection.execute(_OPEN, {"agent": agent_id})).all() if numbers.open_alerts else ()
    held = (await connection.execute(_HELD, {"agent": agent_id})).all() if numbers.untold else ()
    waiting = tuple(w for r in held if r.state == ActionState.WAITING and waits(w := waiting_of(r), now))
    launches = [w.run_id == run_id for w in waiting if w.kind == "launch"]
    return Pulse(
        launches_this_run=numbers.launches_this_run + sum(launches),
        stops_this_run=numbers.stops_this_run + sum(w.run_id == run_id for w in waiting if w.kind == "stop"),
        launches_last_hour=numbers.launches_last_hour + len(launches),
        usd_spent_today=Decimal(numbers.fleet_usd or 0) + Decimal(numbers.unbooked_usd or 0),
        model_tokens_today=numbers.model_tokens or 0,
        hosts_excluded=_excluded(found, now),
        offers_denied=frozenset(row["offer_id"] for row in numbers.denied or ()),
        host_rates=host_rates,
        kind_rates=rates_of_kinds(of_kinds),
        open_alerts=numbers.open_alerts,
        alerts=tuple(Alert(*row) for row in opened),
        waiting=waiting,
        decided=tuple(decided_of(r) for r in held if r.state != ActionState.WAITING),
    )
