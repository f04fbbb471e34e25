"""What a complete listing says about the machines in our ledger: pure, one pass, both ways.

Absence is never taken for an end by itself. A machine that we hold for live and the list lacks makes the fleet unknown,
until the market, asked for that one machine, has said twice that there is none. An intent that nobody ever saw is given
up only after several complete lists over the settling time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from fleetagent.domain.capacity import expected_rate
from fleetagent.domain.fleet import LIVE, Fleet, FleetUnknown, Instance, MarketStatus, Phase, Rented
from fleetagent.domain.text import neutral

LISTS_WITHOUT_IT = 3
READ_LAG = timedelta(minutes=2)
ASK_AGAIN = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class SettleLimits:
    """How long to wait before absence means something, and how long a phase may last."""

    settling: timedelta = timedelta(minutes=5)
    confirm_gone: timedelta = timedelta(minutes=1)
    phases: Mapping[Phase, timedelta] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One row to write: the instance as it is now. `adopted` when the ledger did not know this machine of ours."""

    instance: Instance
    news: str | None = None
    """What the agent is told of it: a fleet event. None when it is no news."""
    adopted: Rented | None = None
    never_appeared: bool = False


@dataclass(frozen=True, slots=True)
class Doomed:
    """A machine that code ends, whatever the model says."""

    instance: Instance
    because: str
    host_failed: bool


@dataclass(frozen=True, slots=True)
class Settlement:
    """What to write, what to ask, what to end; and the fleet as it is known afterwards."""

    changes: tuple[Change, ...]
    ask: tuple[Instance, ...]
    doomed: tuple[Doomed, ...]
    destroy_again: tuple[Instance, ...]
    fleet: Fleet | FleetUnknown


def settle(
    known: Sequence[Instance],
    listed: Sequence[Rented],
    now: datetime,
    limits: SettleLimits,
    *,
    said_gone: Collection[str] = (),
    said_there: Collection[str] = (),
) -> Settlement:
    """Compare our ledger with a complete list of the machines that carry our label.

    `said_gone` and `said_there` are the market's ids that were asked for one by one since the list was read.
    """
    by_label = {r.label: r for r in listed}
    by_id = {r.provider_id: r for r in listed}
    changes: list[Change] = []
    ask: list[Instance] = []
    doomed: list[Doomed] = []
    again: list[Instance] = []
    missing: list[str] = []
    after: list[Instance] = []
    for old in known:
        rented = by_label.get(old.label) or by_id.get(old.provider_id or "")
        if rented is None:
            change = _absent(old, now, limits, said_gone, said_there)
            if change.instance.phase in LIVE and old.provider_id and not _may_lag(old, now):
                missing.append(old.instance_id)
                if old.provider_id not in said_gone and old.provider_id not in said_there:
                    ask.append(old)
            elif change.instance.phase is Phase.STOPPING and old.destroy_asked_at is None:
                again.append(old)
        else:
            change = _present(old, rented, now)
            if change.instance.phase is Phase.STOPPING:
                if old.destroy_asked_at is None or now - old.destroy_asked_at > ASK_AGAIN:
                    again.append(change.instance)
            elif end := _must_end(change.instance, rented, now, limits):
                doomed.append(end)
        if change.instance != old or change.news:
            changes.append(change)
        after.append(change.instance)
    labels = {i.label for i in known}
    for rented in listed:
        if rented.label is not None and rented.label not in labels:
            instance = _adopt(rented, now)
            news = f"machine {rented.provider_id} carries our label but was not in the ledger: adopted"
            changes.append(Change(instance, news, adopted=rented))
            after.append(instance)
    fleet = Fleet(tuple(i for i in after if i.phase in LIVE), now)
    unknown = FleetUnknown(f"the market's list lacks {', '.join(missing[:5])}, which we hold for live", fleet)
    return Settlement(tuple(changes), tuple(ask), tuple(doomed), tuple(again), unknown if missing else fleet)


def _absent(
    old: Instance, now: datetime, limits: SettleLimits, said_gone: Collection[str], said_there: Collection[str]
) -> Change:
    if old.phase is Phase.STOPPING:
        # nobody has told the market yet: this machine may still be on its way into the list
        return Change(_moved(old, Phase.GONE, now)) if old.destroy_asked_at is not None else Change(old)
    since = old.absent_since or now
    seen = replace(old, absent_count=old.absent_count + 1, absent_since=since)
    if old.provider_id is None:
        if seen.absent_count >= LISTS_WITHOUT_IT and now - since >= limits.settling:
            gone = _moved(replace(seen, failure="never appeared on the market"), Phase.FAILED, now)
            return Change(gone, f"launch {old.label} never appeared: given up", never_appeared=True)
        return Change(seen)
    if old.provider_id in said_there:
        return Change(replace(seen, confirmed_gone_at=None))
    if old.provider_id in said_gone:
        if old.confirmed_gone_at is None:
            return Change(replace(seen, confirmed_gone_at=now))
        if now - old.confirmed_gone_at >= limits.confirm_gone:
            gone = _moved(replace(seen, failure=old.failure or "lost: the market knows it no more"), Phase.FAILED, now)
            return Change(gone, f"machine {old.instance_id} is lost: the market knows it no more")
    return Change(seen)


def _may_lag(old: Instance, now: datetime) -> bool:
    """Reads lag behind creates: a machine that no list has shown yet is on its way, for a while."""
    return old.phase is Phase.STOPPING or (old.phase is Phase.REQUESTED and now - old.requested_at < READ_LAG)


def _present(old: Instance, rented: Rented, now: datetime) -> Change:
    phase = Phase.LOADING if old.phase is Phase.REQUESTED else old.phase
    new = replace(
        old if phase is old.phase else _moved(old, phase, now),
        provider_id=rented.provider_id,
        market_status=rented.status,
        usd_per_hour=rented.usd_per_hour if rented.usd_per_hour is not None else old.usd_per_hour,
        absent_count=0,
        absent_since=None,
        confirmed_gone_at=None,
    )
    news = None
    was, now_is = old.market_status, rented.status
    if old.phase is Phase.PROVING and was is not now_is:
        if now_is in {MarketStatus.OFFLINE, MarketStatus.UNKNOWN} and was is MarketStatus.RUNNING:
            news = f"machine {rented.provider_id} is {now_is.value}"
        elif now_is is MarketStatus.RUNNING and was in {MarketStatus.OFFLINE, MarketStatus.UNKNOWN}:
            news = f"machine {rented.provider_id} is back"
    return Change(new, news)


def _must_end(instance: Instance, rented: Rented, now: datetime, limits: SettleLimits) -> Doomed | None:
    if rented.status is MarketStatus.STOPPED:
        because = f"stopped by the market or its host while {instance.phase}: {neutral(rented.status_message, 120)}"
        return Doomed(instance, because, host_failed=True)
    if rented.gpu_name != instance.gpu_name or rented.num_gpus != instance.num_gpus:
        got = f"{rented.num_gpus}x {neutral(rented.gpu_name, 40)}"
        return Doomed(instance, f"it is {got}, not what was ordered", host_failed=True)
    longest = (limits.phases or {}).get(instance.phase)
    if longest is not None and now - instance.phase_since > longest:
        minutes = int(longest.total_seconds() // 60)
        return Doomed(instance, f"longer than {minutes} min in phase {instance.phase}", host_failed=True)
    return None


def _adopt(rented: Rented, now: datetime) -> Instance:
    return Instance(
        label=rented.label or "",
        provider_id=rented.provider_id,
        phase=Phase.LOADING,
        phase_since=now,
        requested_at=now,
        machine_id=rented.machine_id,
        gpu_name=rented.gpu_name,
        num_gpus=rented.num_gpus,
        cpu_ram_gb=rented.cpu_ram_gb,
        cpu_cores=rented.cpu_cores,
        usd_per_hour=rented.usd_per_hour if rented.usd_per_hour is not None else Decimal(0),
        expected_rate=expected_rate(rented.gpu_name, rented.num_gpus, rented.cpu_ram_gb, rented.cpu_cores),
        market_status=rented.status,
    )


def _moved(instance: Instance, phase: Phase, now: datetime) -> Instance:
    return replace(instance, phase=phase, phase_since=now)
