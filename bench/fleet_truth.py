"""What really happened on the market, minute by minute, whatever the agent believed; and the figures of a week."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from fleetagent.sim.marketplace.machines import Machine
from fleetagent.sim.marketplace.market import Market
from fleetagent.sim.marketplace.timeline import GPU_BILLED

MINUTE_S = 60.0
HOUR_S = 3600.0
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Minute:
    """The market at one moment: all machines of the account, by what they do."""

    at_s: float
    rate: float
    """Proofs per hour of what proves."""
    proving: int
    idle_paid: int
    """Machines whose GPU bills while they make no proofs."""
    usd_per_hour: float


@dataclass(slots=True)
class Watch:
    """The minutes so far, and the machines that have ever proved."""

    market: Market
    minutes: list[Minute] = field(default_factory=list)
    proved: set[int] = field(default_factory=set)

    async def go_on(self, seconds: float) -> None:
        """Write down each minute for so long."""
        until = self.market.clock.market() + seconds
        while (now := self.market.clock.market()) < until:
            self._write_down(now)
            await asyncio.sleep(MINUTE_S)

    def _write_down(self, now: float) -> None:
        live = self.market.live()
        proving = [m for m in live if proves(m, now)]
        paid = [m for m in live if m.status_at(now) in GPU_BILLED]
        bill = sum(m.usd_per_hour for m in paid) + sum(m.disk_usd_per_hour for m in live)
        rate = sum(m.fate.rate for m in proving)
        self.minutes.append(Minute(now, rate, len(proving), len(paid) - len(proving), bill))
        self.proved |= {m.id for m in proving}


def proves(machine: Machine, market_s: float) -> bool:
    """Whether it makes proofs now."""
    return machine.live and machine.worker.state == "proving" and machine.status_at(market_s) == "running"


@dataclass(frozen=True, slots=True)
class Week:
    """The figures of one run of the clock; money as the market bills it."""

    on_target: float
    """Share of all minutes in which what proves reaches the target's tolerance."""
    on_target_since_reached: float
    hours_to_target: float
    """From nothing; infinite when it never was."""
    usd: float
    usd_per_proof: float
    launches_a_day: float
    ends_a_day: float
    over_mean: float
    """Proofs per hour above the target, the mean of all minutes since it was reached."""
    over_p95: float
    idle_hours: float
    """Machine-hours paid without proofs."""
    usd_wasted: float
    """Paid for machines that ended without a single proof."""


def figures(watch: Watch, *, target: float, hold_from: float) -> Week:
    """Of everything that was watched."""
    market, minutes = watch.market, watch.minutes
    now = market.clock.market()
    days = now / DAY_S
    reached = next((n for n, m in enumerate(minutes) if m.rate >= hold_from), len(minutes))
    since = minutes[reached:]
    over = sorted(max(0.0, m.rate - target) for m in since)
    proofs = sum(m.rate for m in minutes) / 60
    machines = market.machines.values()
    usd = sum(m.usd_in_market_time(now) for m in machines)
    ended = [m for m in machines if not m.live]
    return Week(
        on_target=_share(minutes, hold_from),
        on_target_since_reached=_share(since, hold_from),
        hours_to_target=minutes[reached].at_s / HOUR_S if since else float("inf"),
        usd=usd,
        usd_per_proof=usd / proofs if proofs else float("inf"),
        launches_a_day=len(market.machines) / days,
        ends_a_day=len(ended) / days,
        over_mean=sum(over) / len(over) if over else 0.0,
        over_p95=over[int(0.95 * (len(over) - 1))] if over else 0.0,
        idle_hours=sum(m.idle_paid for m in minutes) / 60,
        usd_wasted=sum(m.usd_in_market_time(now) for m in ended if m.id not in watch.proved),
    )


def _share(minutes: Sequence[Minute], hold_from: float) -> float:
    return sum(m.rate >= hold_from for m in minutes) / len(minutes) if minutes else 0.0
