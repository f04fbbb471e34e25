"""One look at the market: list, settle, end what must end. By code, in every mode, whatever the model thinks."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from fleetagent.agent.alarms import Alarms
from fleetagent.agent.clock import Now
from fleetagent.agent.effects import Effects
from fleetagent.agent.subject import Subject
from fleetagent.domain.account import PriceRise, Runway, bill
from fleetagent.domain.fleet import Fleet, FleetUnknown, Instance, Phase, Rented
from fleetagent.domain.records import Lease
from fleetagent.domain.settle import SettleLimits, Settlement, settle
from fleetagent.errors import BadResource, TryLater
from fleetagent.ports import Agents, Cluster, Ledger, Market, Runs

log = logging.getLogger(__name__)

FLEET_UNKNOWN = "FleetUnknown"
CREDIT_LOW = "CreditLow"
PRICE_RISE = "PriceRise"
BILLED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the market showed."""

    fleet: Fleet | FleetUnknown
    runway: Runway | None = None
    """None while the account cannot be read."""


class Lifecycle:
    """Keeps ledger and market together; what it changes becomes fleet events."""

    def __init__(
        self,
        agents: Agents,
        runs: Runs,
        ledger: Ledger,
        effects: Effects,
        cluster: Cluster,
        now: Now,
        limits: SettleLimits,
    ) -> None:
        self._agents = agents
        self._ledger = ledger
        self._effects = effects
        self._cluster = cluster
        self._now = now
        self._limits = limits
        self._alarms = Alarms(runs, now)
        self._accounts: dict[int, tuple[int, str]] = {}
        self._billed: dict[int, datetime] = {}

    async def look(self, subject: Subject, lease: Lease, market: Market) -> Look:
        """The fleet as a complete listing and the ledger agree, or why it is unknown; and how long the money lasts."""
        known = await self._ledger.instances(subject.record.id)
        try:
            account, listed, rises = await asyncio.gather(market.account(), market.machines(), _rises(market, known))
            await self._same_account(subject, lease, account.id, known)
        except TryLater as error:
            because = f"spec.fleet.vast.baseURL: the market cannot be read ({error})"
            return Look(await self.unknown(subject, because, known))
        except BadResource as error:
            return Look(await self.unknown(subject, str(error), known, error.reason))
        runway = Runway(account.credit_usd, bill(listed), account.refused)
        await self._alarms.tell(subject.record, CREDIT_LOW, _topping_up(runway) if runway.is_low else None)
        settled = await self._settled(subject, market, known, listed, rises, runway)
        await self._write(subject, lease, settled, has_machines=bool(known))
        ending = (*(d.instance for d in settled.doomed), *settled.destroy_again)
        await self._effects.destroy_all(lease, market, ending)
        if rises is not None:
            await self._alarms.tell(subject.record, PRICE_RISE, _rises_pending(settled))
        if isinstance(settled.fleet, FleetUnknown):
            last = settled.fleet.last_known
            because = settled.fleet.because
            return Look(await self.unknown(subject, because, last.instances if last else ()), runway)
        await self._alarms.tell(subject.record, FLEET_UNKNOWN, None)
        if ending or any(c.adopted for c in settled.changes):
            return Look(Fleet(await self._ledger.instances(subject.record.id), self._now()), runway)
        return Look(settled.fleet, runway)

    async def unknown(
        self, subject: Subject, because: str, known: tuple[Instance, ...] | None = None, reason: str = FLEET_UNKNOWN
    ) -> FleetUnknown:
        """The fleet as it was last known, with an alert: nothing is launched or stopped until it can be read again."""
        if known is None:
            known = await self._ledger.instances(subject.record.id)
        message = f"the fleet is unknown, nothing is launched or stopped: {because}"
        await self._alarms.tell(subject.record, FLEET_UNKNOWN, message)
        return FleetUnknown(because, Fleet(known, self._now()), reason)

    async def _settled(
        self,
        subject: Subject,
        market: Market,
        known: tuple[Instance, ...],
        listed: tuple[Rented, ...],
        rises: Mapping[str, PriceRise] | None,
        runway: Runway,
    ) -> Settlement:
        """The ledger compared with the list; with more facts where the list alone does not decide."""
        now, prefix = self._now(), subject.label_prefix
        out_of_credit = runway.credit_usd is not None and runway.credit_usd <= 0
        limits = replace(self._limits, phases=_time_limits(subject), out_of_credit=out_of_credit)
        compare = partial(settle, known, now=now, label_prefix=prefix, rises=rises)
        settled = compare(listed, limits=limits)
        if settled.ask:
            gone, there = await _ask_each(market, settled.ask)
            listed = await _listed_again(market, listed) if there else listed
            compare = partial(compare, said_gone=gone, said_there=there)
            settled = compare(listed, limits=limits)
        if any(c.adopted for c in settled.changes):
            settled = compare(listed, limits=await self._limits_of_launches(subject, limits))
        return settled

    async def _limits_of_launches(self, subject: Subject, limits: SettleLimits) -> SettleLimits:
        """With what else a machine that turns up must keep to, as if it were launched now."""
        spec, pulse = subject.spec, await self._ledger.pulse(subject.record.id, 0, self._now())
        return replace(
            limits,
            max_instances=spec.limits.max_instances,
            fleet_usd_per_hour=spec.budget.fleet_usd_per_hour,
            fleet_usd_per_day=spec.budget.fleet_usd_per_day,
            usd_spent_today=pulse.usd_spent_today,
            hosts_excluded=frozenset(pulse.hosts_excluded),
        )

    async def _same_account(self, subject: Subject, lease: Lease, account: str, known: tuple[Instance, ...]) -> None:
        """Machines belong to one account: another one's list says nothing about them. Without machines any will do.

        Within a lease, as within a run, the last look knows the account better than the row that the run began with.
        """
        token, before = self._accounts.get(lease.agent_id, (None, None))
        if token != lease.token:
            before = subject.record.account_id
        if account != before and before is not None and known:
            raise BadResource(
                "FleetKnown",
                "AccountChanged",
                f"the API key belongs to account {account}, this agent's machines to {before}: "
                "put the old account's key back until they are gone",
            )
        if account != before:
            await self._agents.remember_account(lease, account, instead_of=before)
        self._accounts[lease.agent_id] = lease.token, account

    async def _write(self, subject: Subject, lease: Lease, settled: Settlement, *, has_machines: bool) -> None:
        """Bills go on even when nothing changed, though seldom: what is not booked yet is counted all the same."""
        now, changed = self._now(), bool(settled.changes or settled.doomed)
        billed_at = self._billed.get(lease.agent_id)
        if changed or (has_machines and not (billed_at and timedelta(0) <= now - billed_at < BILLED_EVERY)):
            await self._ledger.settle(lease, settled.changes, now, settled.doomed)
            self._billed[lease.agent_id] = now
        meta = subject.agent.metadata
        event = partial(self._cluster.event, meta.namespace, meta.name, meta.uid)
        for change in settled.changes:
            if change.news is not None and change.adopted is not None:
                await event(kind="Warning", reason="MachineAdopted", message=change.news)
            elif change.news is not None:
                await event(kind="Normal", reason="FleetChanged", message=change.news)
        for doomed in settled.doomed:
            await event(kind="Warning", reason="MachineGivenUp", message=doomed.news)


async def _rises(market: Market, known: tuple[Instance, ...]) -> Mapping[str, PriceRise] | None:
    """By machine; None while nobody knows, or nothing is rented."""
    rises = await market.price_rises() if known else None
    return None if rises is None else {rise.provider_id: rise for rise in rises}


def _topping_up(runway: Runway) -> str:
    said = f"; the market said: {runway.refused}" if runway.refused is not None else ""
    return f"top up the market's account: {runway.words}{said}. Without credit it stops every machine"


def _rises_pending(settled: Settlement) -> str | None:
    """What a person may want to accept or not; nobody of us does."""
    fleet = settled.fleet.last_known if isinstance(settled.fleet, FleetUnknown) else settled.fleet
    asked = [
        f"machine {i.instance_id}: {i.told.announced_usd_per_hour:.4f} instead of {i.usd_per_hour:.4f} USD/h"
        for i in (fleet.instances if fleet is not None else ())
        if i.told.announced_usd_per_hour is not None
    ]
    if not asked:
        return None
    return f"hosts ask for a higher price, and end the rental if nobody accepts it: {'; '.join(asked[:10])}"


async def _ask_each(market: Market, instances: tuple[Instance, ...]) -> tuple[set[str], set[str]]:
    """The ids that the market knows no more, and those that it does; who gets no answer is in neither."""
    gone: set[str] = set()
    there: set[str] = set()

    async def ask(provider_id: str) -> None:
        try:
            (there if await market.machine(provider_id) is not None else gone).add(provider_id)
        except (TryLater, BadResource) as error:
            log.warning("asked for machine %s: %s", provider_id, error)

    await asyncio.gather(*(ask(i.provider_id) for i in instances[:20] if i.provider_id is not None))
    return gone, there


async def _listed_again(market: Market, listed: tuple[Rented, ...]) -> tuple[Rented, ...]:
    """The list once more, since it lacks what the market says is there: a gap of one call is no reason for an alert."""
    try:
        return await market.machines()
    except (TryLater, BadResource) as error:
        log.warning("the list has a gap, and could not be read again: %s", error)
        return listed


def _time_limits(subject: Subject) -> dict[Phase, timedelta]:
    limits = subject.spec.fleet.timeouts
    return {
        Phase.REQUESTED: limits.loading,
        Phase.LOADING: limits.loading,
        Phase.REGISTERED: limits.registered,
        Phase.BENCHMARKING: limits.benchmarking,
    }
