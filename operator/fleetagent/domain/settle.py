"""What a complete listing says about the machines in our ledger: pure, one pass, both ways.

Absence is never taken for an end by itself. A machine that we hold for live and the list lacks makes the fleet unknown,
until the market, asked for that one machine, has said twice that there is none. An intent that nobody ever saw is given
up only after several complete lists over the settling time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from fleetagent.domain.account import PriceRise
from fleetagent.domain.fleet import LIVE, Fleet, FleetUnknown, Instance, MarketStatus, Phase, Rented
from fleetagent.domain.labels import is_ours
from fleetagent.domain.newcomers import newcomers
from fleetagent.domain.settlement import NEVER_APPEARED, Change, Doomed, SettleLimits, Settlement
from fleetagent.domain.text import neutral
from fleetagent.domain.tidings import dearer, tidings

__all__ = ["Change", "Doomed", "SettleLimits", "Settlement", "settle"]

LISTS_WITHOUT_IT = 3
ASK_AGAIN = timedelta(seconds=20)


def settle(
    known: Sequence[Instance],
    listed: Sequence[Rented],
    now: datetime,
    limits: SettleLimits,
    *,
    label_prefix: str,
    rises: Mapping[str, PriceRise] | None = None,
    said_gone: Collection[str] = (),
    said_there: Collection[str] = (),
) -> Settlement:
    """Compare our ledger with a complete list of the account's machines; those without our label are none of it.

    `said_gone` and `said_there` are the market's ids that were asked for one by one since the list was read; `rises`
    are the prices that hosts ask for, by the market's ids, None while they are not known.
    """
    seen = _matched(known, listed)
    changes: list[Change] = []
    ask: list[Instance] = []
    doomed: list[Doomed] = []
    again: list[Instance] = []
    missing: list[str] = []
    after: list[Instance] = []
    for row in known:
        rented = seen.get(row.label)
        # an id that a launch was answered with, and that turned out to be of somebody else's machine, is none
        old = replace(row, provider_id=None) if rented is None and _is_anothers(row, listed) else row
        if rented is None:
            change = _absent(old, now, limits, said_gone, said_there)
            if change.instance.phase in LIVE and old.provider_id and not _may_lag(old, now, limits):
                missing.append(old.instance_id)
                if old.provider_id not in said_gone and old.provider_id not in said_there:
                    ask.append(old)
        else:
            change = _present(old, rented, now, rises)
            if end := _must_end(old, change.instance, rented, now, limits):
                doomed.append(end)
        if change.instance.phase is Phase.STOPPING and _ask_to_destroy(old, now):
            again.append(change.instance)
        if change.news or (change.instance is not row and change.instance != row):
            changes.append(change)
        after.append(change.instance)
    there = [i for i in after if i.phase in LIVE and i.instance_id not in missing]
    matched = {r.provider_id for r in seen.values()}
    ours = [r for r in listed if is_ours(r.label, label_prefix) and r.provider_id not in matched]
    for change, end in newcomers(known, ours, there, now, limits):
        changes.append(change)
        after.append(change.instance)
        doomed += [end] if end is not None else []
    fleet = Fleet(tuple(i for i in after if i.phase in LIVE), now)
    unknown = FleetUnknown(f"the market's list lacks {', '.join(missing[:5])}, which we hold for live", fleet)
    return Settlement(tuple(changes), tuple(ask), tuple(doomed), tuple(again), unknown if missing else fleet)


def _matched(known: Sequence[Instance], listed: Sequence[Rented]) -> dict[str, Rented]:
    """Which row of the list is which machine of the ledger (by the ledger's label).

    The market's id says it for certain, also while a label lags behind or was changed by hand. The label decides only
    for an intent whose id nobody knows yet, or knows wrongly.
    """
    by_id = {r.provider_id: r for r in listed}
    found = {i.label: row for i in known if (row := by_id.get(i.provider_id or "")) and _is_the_one(i, row)}
    taken = {r.provider_id for r in found.values()}
    by_label = {r.label: r for r in reversed(listed) if r.provider_id not in taken}
    named = {
        i.label: by_label[i.label] for i in known if i.label not in found and _is_unseen(i) and i.label in by_label
    }
    return found | named


def _is_unseen(instance: Instance) -> bool:
    """Whether no list has ever shown it: what a launch was answered with is not proved to be ours yet."""
    return instance.market_status is None


def _is_the_one(instance: Instance, row: Rented) -> bool:
    """Whether the row with its id is that machine: at first sight its label says so, or its host while that lags."""
    if not _is_unseen(instance):
        return True
    return row.label == instance.label or (row.label is None and row.machine_id in {instance.machine_id, ""})


def _is_anothers(instance: Instance, listed: Sequence[Rented]) -> bool:
    return _is_unseen(instance) and any(r.provider_id == instance.provider_id for r in listed)


def _absent(
    old: Instance, now: datetime, limits: SettleLimits, said_gone: Collection[str], said_there: Collection[str]
) -> Change:
    if old.phase is Phase.STOPPING:
        return _stopping(old, now, limits)
    seen = _missed(old, now)
    if old.provider_id is None:
        return _never_seen(seen, now, limits)
    if old.provider_id in said_there:
        return Change(replace(seen, confirmed_gone_at=None))
    return _said_gone(seen, now, limits) if old.provider_id in said_gone else Change(seen)


def _stopping(old: Instance, now: datetime, limits: SettleLimits) -> Change:
    """Gone, once the market was told; until a list has shown it, it may still be on its way into the list."""
    if old.destroy_asked_at is None:
        if not _is_unseen(old):
            return Change(old)
        seen = _missed(old, now)
        never = _is_never(seen, now, limits)
        return Change(_moved(seen, Phase.GONE, now) if never else seen, never_appeared=never)
    return Change(old if _is_on_its_way(old, now, limits) else _moved(old, Phase.GONE, now))


def _missed(old: Instance, now: datetime) -> Instance:
    """One more list lacks it. A moment that has not come yet, of a clock that was set back, would hold for days."""
    return replace(old, absent_count=old.absent_count + 1, absent_since=min(old.absent_since or now, now))


def _is_never(seen: Instance, now: datetime, limits: SettleLimits) -> bool:
    """Whether several complete lists over the settling time have lacked it."""
    waited = now - (seen.absent_since or now)
    return seen.absent_count >= LISTS_WITHOUT_IT and waited >= limits.settling


def _never_seen(seen: Instance, now: datetime, limits: SettleLimits) -> Change:
    """An intent of which the market knows nothing: given up after several complete lists over the settling time."""
    if not _is_never(seen, now, limits):
        return Change(seen)
    gone = _moved(replace(seen, failure=NEVER_APPEARED), Phase.FAILED, now)
    return Change(gone, f"launch {seen.label} never appeared: given up", never_appeared=True)


def _said_gone(seen: Instance, now: datetime, limits: SettleLimits) -> Change:
    """The market, asked for this one machine, says that there is none: believed the second time."""
    if seen.confirmed_gone_at is None or seen.confirmed_gone_at > now:
        return Change(replace(seen, confirmed_gone_at=now))
    if now - seen.confirmed_gone_at < limits.confirm_gone:
        return Change(seen)
    gone = _moved(replace(seen, failure=seen.failure or "lost: the market knows it no more"), Phase.FAILED, now)
    return Change(gone, f"machine {seen.instance_id} is lost: the market knows it no more")


def _may_lag(old: Instance, now: datetime, limits: SettleLimits) -> bool:
    """Reads lag behind creates: a machine that no list has shown yet is on its way, for a while."""
    return old.phase is Phase.STOPPING or _is_on_its_way(old, now, limits)


def _is_on_its_way(old: Instance, now: datetime, limits: SettleLimits) -> bool:
    return _is_unseen(old) and abs(now - old.requested_at) < limits.read_lag


def _ask_to_destroy(old: Instance, now: datetime) -> bool:
    return old.destroy_asked_at is None or abs(now - old.destroy_asked_at) > ASK_AGAIN


def _present(old: Instance, rented: Rented, now: datetime, rises: Mapping[str, PriceRise] | None) -> Change:
    phase = Phase.LOADING if old.phase is Phase.REQUESTED else old.phase
    moved = old if phase is old.phase else _moved(old, phase, now)
    seen = {
        "provider_id": rented.provider_id,
        "market_status": rented.status,
        "usd_per_hour": rented.usd_per_hour if rented.usd_per_hour is not None else old.usd_per_hour,
        "absent_count": 0,
        "absent_since": None,
        "confirmed_gone_at": None,
        "phase_since": min(moved.phase_since, now),  # a clock that was set back must not prolong a phase by days
    }
    new = _with(moved, seen)
    if phase is Phase.STOPPING:
        return Change(new)  # whatever else is to be seen of it is no news
    told, news = tidings(old, new, rented, now, rises)
    return Change(_with(new, {"told": told}), news)


def _with(instance: Instance, values: Mapping[str, Any]) -> Instance:
    """The same with these values; itself where they are what it has, as they are of nearly all at each look."""
    same = all(getattr(instance, name) == value for name, value in values.items())
    return instance if same else replace(instance, **values)


def _must_end(old: Instance, instance: Instance, rented: Rented, now: datetime, limits: SettleLimits) -> Doomed | None:
    if instance.phase is Phase.STOPPING:
        return None
    because = instance.failure or _unusable(old, instance, rented) or _overdue(instance, now, limits)
    stopped_for_money = limits.out_of_credit and rented.status is MarketStatus.STOPPED
    return Doomed(instance, because, host_failed=not stopped_for_money) if because is not None else None


def _unusable(old: Instance, instance: Instance, rented: Rented) -> str | None:
    if rented.status is MarketStatus.STOPPED:
        return f"stopped by the market or its host while {instance.phase}: {neutral(rented.status_message, 120)}"
    known = all((rented.gpu_name, rented.num_gpus, instance.gpu_name, instance.num_gpus))
    known = known and instance.measured_rate is None  # what was measured is judged by that: a market may rename a GPU
    if known and (rented.gpu_name != instance.gpu_name or rented.num_gpus != instance.num_gpus):
        return f"it is {rented.num_gpus}x {neutral(rented.gpu_name, 40)}, not what was ordered"
    first_price = old.told.usd_per_hour is None and rented.usd_per_hour is not None
    if first_price and dearer(instance.usd_per_hour, old.usd_per_hour):
        return f"it costs {instance.usd_per_hour:.4f} USD/h, ordered at {old.usd_per_hour:.4f}"
    return None


def _overdue(instance: Instance, now: datetime, limits: SettleLimits) -> str | None:
    longest = (limits.phases or {}).get(instance.phase)
    if longest is None or now - instance.phase_since <= longest:
        return None
    return f"longer than {int(longest.total_seconds() // 60)} min in phase {instance.phase}"


def _moved(instance: Instance, phase: Phase, now: datetime) -> Instance:
    return replace(instance, phase=phase, phase_since=now)
