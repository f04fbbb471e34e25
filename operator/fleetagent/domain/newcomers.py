"""Machines with our label that the ledger does not hold for live: adopted, and ended where rules have no room for them.

What ends nothing: mode, pause and the installation's stop. They hold back what the agent does, and a machine that is
there is none of its doing any more; a database that was set back must not cost a fleet because its agent is suspended.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from fleetagent.domain.capacity import expected_rate
from fleetagent.domain.fleet import Instance, MarketStatus, Phase, Rented, Told
from fleetagent.domain.money import hours_to_midnight
from fleetagent.domain.settlement import Change, Doomed, SettleLimits


def newcomers(
    known: Sequence[Instance],
    ours: Iterable[Rented],
    there: Sequence[Instance],
    now: datetime,
    limits: SettleLimits,
) -> list[tuple[Change, Doomed | None]]:
    """Each of `ours` adopted, and what ends it at once, if anything; `there` are those that take up room already."""
    labels = {i.label for i in known}
    count, usd_per_hour = len(there), sum((i.usd_per_hour for i in there), Decimal(0))
    found: list[tuple[Change, Doomed | None]] = []
    for rented in ours:
        label = rented.label or ""
        twin = label in labels
        instance = _adopt(rented, f"{label}#{rented.provider_id}" if twin else label, now)
        labels.add(label)
        because = "it is a second machine for one order" if twin else None
        because = because or _unfit(rented, count + 1, usd_per_hour + instance.usd_per_hour, now, limits)
        news = f"machine {rented.provider_id} carries our label but was not in the ledger: adopted"
        end = None
        if because is None:
            count, usd_per_hour = count + 1, usd_per_hour + instance.usd_per_hour
        else:
            end = Doomed(instance, f"not in the ledger, and {because}", host_failed=False)
        found.append((Change(instance, news, adopted=rented), end))
    return found


def _unfit(rented: Rented, count: int, usd_per_hour: Decimal, now: datetime, limits: SettleLimits) -> str | None:
    """Which rule of a launch this machine would break, were it ordered now."""
    if rented.usd_per_hour is None:
        return "nobody knows what it costs"
    if limits.max_instances is not None and count > limits.max_instances:
        return f"{limits.max_instances} instances are the limit"
    if limits.fleet_usd_per_hour is not None and usd_per_hour > limits.fleet_usd_per_hour:
        return f"{usd_per_hour:.4f} USD/h would pass the budget of {limits.fleet_usd_per_hour:.2f}"
    by_midnight = limits.usd_spent_today + usd_per_hour * hours_to_midnight(now)
    if limits.fleet_usd_per_day is not None and by_midnight > limits.fleet_usd_per_day:
        return f"{by_midnight:.2f} USD by midnight would pass the day's budget of {limits.fleet_usd_per_day:.2f}"
    if rented.machine_id in limits.hosts_excluded:
        return f"its host {rented.machine_id} has failed lately"
    return None


def _adopt(rented: Rented, label: str, now: datetime) -> Instance:
    price = rented.usd_per_hour
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
        usd_per_hour=price if price is not None else Decimal(0),
        expected_rate=expected_rate(rented.gpu_name, rented.num_gpus, rented.cpu_ram_gb, rented.cpu_cores),
        market_status=rented.status,
        told=Told(price, status=MarketStatus.RUNNING if rented.status is MarketStatus.RUNNING else None),
    )
