"""What a complete listing says about the machines in our ledger: pure, one pass, both ways.

Absence is never taken for an end by itself. A machine that we hold for live and the list lacks makes the fleet unknown,
until the market, asked for that one machine, has said twice that there is none. An intent that nobody ever saw is given
up only after several complete lists over the settling time.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from fleetagent.domain.capacity import expected_rate
from fleetagent.domain.fleet import LIVE, Fleet, FleetUnknown, Instance, MarketStatus, Phase, Rented
from fleetagent.domain.text import neutral

LISTS_WITHOUT_IT = 3
READ_LAG = timedelta(minutes=2)
ASK_AGAIN = timedelta(seconds=20)
DEARER = Decimal("1.05"), Decimal("0.01")
"""Factor and USD per hour by which a bill may differ from the price that was ordered: prices are rounded and drift."""


@dataclass(frozen=True, slots=True)
class SettleLimits:
    """How long to wait before absence means something, how long a phase may last, how many machines may be adopted."""

    settling: timedelta = timedelta(minutes=5)
    confirm_gone: timedelta = timedelta(minutes=1)
    phases: Mapping[Phase, timedelta] | None = None
    max_instances: int | None = None
    fleet_usd_per_hour: Decimal | None = None

    @property
    def read_lag(self) -> timedelta:
        """How long reads may lag behind a create."""
        return min(READ_LAG, self.settling)


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
    seen = _matched(known, listed)
    changes: list[Change] = []
    ask: list[Instance] = []
    doomed: list[Doomed] = []
    again: list[Instance] = []
    missing: list[str] = []
    after: list[Instance] = []
    for old in known:
        rented = seen.get(old.label)
        if rented is None:
            change = _absent(old, now, limits, said_gone, said_there)
            if change.instance.phase in LIVE and old.provider_id and not _may_lag(old, now, limits):
                missing.append(old.instance_id)
                if old.provider_id not in said_gone and old.provider_id not in said_there:
                    ask.append(old)
        else:
            change = _present(old, rented, now)
            if end := _must_end(old, change.instance, rented, now, limits):
                doomed.append(end)
        if change.instance.phase is Phase.STOPPING and _ask_to_destroy(old, now):
            again.append(change.instance)
        if change.instance != old or change.news:
            changes.append(change)
        after.append(change.instance)
    there = [i for i in after if i.phase in LIVE and i.instance_id not in missing]
    for change, end in _newcomers(known, listed, seen.values(), there, now, limits):
        changes.append(change)
        after.append(change.instance)
        doomed += [end] if end is not None else []
    fleet = Fleet(tuple(i for i in after if i.phase in LIVE), now)
    unknown = FleetUnknown(f"the market's list lacks {', '.join(missing[:5])}, which we hold for live", fleet)
    return Settlement(tuple(changes), tuple(ask), tuple(doomed), tuple(again), unknown if missing else fleet)


def _matched(known: Sequence[Instance], listed: Sequence[Rented]) -> dict[str, Rented]:
    """Which row of the list is which machine of the ledger (by the ledger's label).

    The market's id says it for certain, also while a label lags behind or was changed by hand. The label decides only
    for an intent whose id nobody knows yet.
    """
    by_id = {r.provider_id: r for r in listed}
    found = {i.label: by_id[i.provider_id] for i in known if i.provider_id in by_id}
    taken = {r.provider_id for r in found.values()}
    by_label = {r.label: r for r in reversed(listed) if r.provider_id not in taken}
    return found | {i.label: by_label[i.label] for i in known if i.provider_id is None and i.label in by_label}


def _newcomers(
    known: Sequence[Instance],
    listed: Sequence[Rented],
    matched: Iterable[Rented],
    there: Sequence[Instance],
    now: datetime,
    limits: SettleLimits,
) -> list[tuple[Change, Doomed | None]]:
    """Machines with our label that the ledger does not hold for live: adopted, and ended where there is no room."""
    taken, labels = {r.provider_id for r in matched}, {i.label for i in known}
    count, usd_per_hour = len(there), sum((i.usd_per_hour for i in there), Decimal(0))
    found: list[tuple[Change, Doomed | None]] = []
    for rented in listed:
        if rented.label is None or rented.provider_id in taken:
            continue
        twin = rented.label in labels
        instance = _adopt(rented, f"{rented.label}#{rented.provider_id}" if twin else rented.label, now)
        labels.add(rented.label)
        count, usd_per_hour = count + 1, usd_per_hour + instance.usd_per_hour
        because = "it is a second machine for one order" if twin else _no_room(count, usd_per_hour, limits)
        if because is None and rented.usd_per_hour is None:
            because = "nobody knows what it costs"
        news = f"machine {rented.provider_id} carries our label but was not in the ledger: adopted"
        end = None
        if because is not None:
            end = Doomed(instance, f"not in the ledger, and {because}", host_failed=False)
            count, usd_per_hour = count - 1, usd_per_hour - instance.usd_per_hour
        found.append((Change(instance, news, adopted=rented), end))
    return found


def _no_room(count: int, usd_per_hour: Decimal, limits: SettleLimits) -> str | None:
    if limits.max_instances is not None and count > limits.max_instances:
        return f"{limits.max_instances} instances are the limit"
    if limits.fleet_usd_per_hour is not None and usd_per_hour > limits.fleet_usd_per_hour:
        return f"{usd_per_hour:.4f} USD/h would pass the budget of {limits.fleet_usd_per_hour:.2f}"
    return None


def _absent(
    old: Instance, now: datetime, limits: SettleLimits, said_gone: Collection[str], said_there: Collection[str]
) -> Change:
    if old.phase is Phase.STOPPING:
        # not told to the market yet, or never listed: this machine may still be on its way into the list
        on_its_way = old.market_status is None and now - old.requested_at < limits.read_lag
        return Change(old if old.destroy_asked_at is None or on_its_way else _moved(old, Phase.GONE, now))
    seen = replace(old, absent_count=old.absent_count + 1, absent_since=old.absent_since or now)
    if old.provider_id is None:
        return _never_seen(seen, now, limits)
    if old.provider_id in said_there:
        return Change(replace(seen, confirmed_gone_at=None))
    return _said_gone(seen, now, limits) if old.provider_id in said_gone else Change(seen)


def _never_seen(seen: Instance, now: datetime, limits: SettleLimits) -> Change:
    """An intent of which the market knows nothing: given up after several complete lists over the settling time."""
    waited = now - (seen.absent_since or now)
    if seen.absent_count < LISTS_WITHOUT_IT or waited < limits.settling:
        return Change(seen)
    gone = _moved(replace(seen, failure="never appeared on the market"), Phase.FAILED, now)
    return Change(gone, f"launch {seen.label} never appeared: given up", never_appeared=True)


def _said_gone(seen: Instance, now: datetime, limits: SettleLimits) -> Change:
    """The market, asked for this one machine, says that there is none: believed the second time."""
    if seen.confirmed_gone_at is None:
        return Change(replace(seen, confirmed_gone_at=now))
    if now - seen.confirmed_gone_at < limits.confirm_gone:
        return Change(seen)
    gone = _moved(replace(seen, failure=seen.failure or "lost: the market knows it no more"), Phase.FAILED, now)
    return Change(gone, f"machine {seen.instance_id} is lost: the market knows it no more")


def _may_lag(old: Instance, now: datetime, limits: SettleLimits) -> bool:
    """Reads lag behind creates: a machine that no list has shown yet is on its way, for a while."""
    return old.phase is Phase.STOPPING or (old.market_status is None and now - old.requested_at < limits.read_lag)


def _ask_to_destroy(old: Instance, now: datetime) -> bool:
    return old.destroy_asked_at is None or now - old.destroy_asked_at > ASK_AGAIN


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


def _must_end(old: Instance, instance: Instance, rented: Rented, now: datetime, limits: SettleLimits) -> Doomed | None:
    if instance.phase is Phase.STOPPING:
        return None
    because = instance.failure or _unusable(old, instance, rented) or _overdue(instance, now, limits)
    return Doomed(instance, because, host_failed=True) if because is not None else None


def _unusable(old: Instance, instance: Instance, rented: Rented) -> str | None:
    if rented.status is MarketStatus.STOPPED:
        return f"stopped by the market or its host while {instance.phase}: {neutral(rented.status_message, 120)}"
    known = bool(rented.gpu_name) and rented.num_gpus > 0
    if known and (rented.gpu_name != instance.gpu_name or rented.num_gpus != instance.num_gpus):
        return f"it is {rented.num_gpus}x {neutral(rented.gpu_name, 40)}, not what was ordered"
    factor, more = DEARER
    first_sight = old.market_status is None and rented.usd_per_hour is not None
    if first_sight and instance.usd_per_hour > old.usd_per_hour * factor + more:
        return f"it costs {instance.usd_per_hour:.4f} USD/h, ordered at {old.usd_per_hour:.4f}"
    return None


def _overdue(instance: Instance, now: datetime, limits: SettleLimits) -> str | None:
    longest = (limits.phases or {}).get(instance.phase)
    if longest is None or now - instance.phase_since <= longest:
        return None
    return f"longer than {int(longest.total_seconds() // 60)} min in phase {instance.phase}"


def _adopt(rented: Rented, label: str, now: datetime) -> Instance:
    return Instance(
        label=label,
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
