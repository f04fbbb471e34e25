"""One look at the market: list, settle, end what must end. By code, in every mode, whatever the model thinks."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

from fleetagent.agent.clock import Now
from fleetagent.agent.effects import Effects
from fleetagent.agent.subject import Subject
from fleetagent.domain.fleet import Fleet, FleetUnknown, Instance, Phase
from fleetagent.domain.records import Lease
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.settle import Doomed, SettleLimits, Settlement, settle
from fleetagent.errors import BadResource, TryLater
from fleetagent.ports import Agents, Ledger, Market, Runs

log = logging.getLogger(__name__)


class Lifecycle:
    """Keeps ledger and market together; what it changes becomes fleet events."""

    def __init__(
        self, agents: Agents, runs: Runs, ledger: Ledger, effects: Effects, now: Now, limits: SettleLimits
    ) -> None:
        self._agents = agents
        self._runs = runs
        self._ledger = ledger
        self._effects = effects
        self._now = now
        self._limits = limits

    async def look(self, subject: Subject, lease: Lease, market: Market) -> Fleet | FleetUnknown:
        """The fleet as a complete listing and the ledger agree, or why it is unknown."""
        known = await self._ledger.instances(subject.record.id)
        try:
            account, listed = await asyncio.gather(market.account_id(), market.machines())
            await self._same_account(subject, lease, account, known)
        except TryLater as error:
            return await self.unknown(subject, f"spec.fleet.vast.baseURL: the market cannot be read ({error})", known)
        except BadResource as error:
            return await self.unknown(subject, str(error), known, error.reason)
        ids = {i.provider_id for i in known}
        ours = [r for r in listed if (r.label or "").startswith(subject.label_prefix) or r.provider_id in ids]
        limits = self._limits_for(subject)
        settled = settle(known, ours, self._now(), limits)
        if settled.ask:
            gone, there = await _ask_each(market, settled.ask)
            settled = settle(known, ours, self._now(), limits, said_gone=gone, said_there=there)
        await self._write(subject, lease, settled)
        await self._end(subject, lease, market, settled)
        if isinstance(settled.fleet, FleetUnknown):
            last = settled.fleet.last_known
            return await self.unknown(subject, settled.fleet.because, last.instances if last else ())
        await self._runs.resolve_alerts(subject.record.id, "FleetUnknown")
        if settled.doomed or settled.destroy_again or any(c.adopted for c in settled.changes):
            return Fleet(await self._ledger.instances(subject.record.id), self._now())
        return settled.fleet

    async def unknown(
        self, subject: Subject, because: str, known: tuple[Instance, ...] | None = None, reason: str = "FleetUnknown"
    ) -> FleetUnknown:
        """The fleet as it was last known, with an alert: nothing is launched or stopped until it can be read again."""
        if known is None:
            known = await self._ledger.instances(subject.record.id)
        message = f"the fleet is unknown, nothing is launched or stopped: {because}"
        await self._runs.raise_alert(subject.record.id, 0, "FleetUnknown", "warning", message)
        return FleetUnknown(because, Fleet(known, self._now()), reason)

    def _limits_for(self, subject: Subject) -> SettleLimits:
        spec = subject.spec
        return replace(
            self._limits,
            phases=_time_limits(subject),
            max_instances=spec.limits.max_instances,
            fleet_usd_per_hour=spec.budget.fleet_usd_per_hour,
        )

    async def _same_account(self, subject: Subject, lease: Lease, account: str, known: tuple[Instance, ...]) -> None:
        """Machines belong to one account: another one's list says nothing about them. Without machines any will do."""
        before = subject.record.account_id
        if account == before:
            return
        if before is None or not known:
            await self._agents.remember_account(lease, account, instead_of=before)
            return
        raise BadResource(
            "FleetKnown",
            "AccountChanged",
            f"the API key belongs to account {account}, this agent's machines to {subject.record.account_id}: "
            "put the old account's key back until they are gone",
        )

    async def _write(self, subject: Subject, lease: Lease, settled: Settlement) -> None:
        """Bills go on even when nothing changed."""
        await self._ledger.settle(lease, settled.changes, self._now())
        for change in settled.changes:
            if change.news is not None:
                value = f"{change.instance.label} {self._now().isoformat()}"
                await self._runs.persist(subject.record.id, Trigger.EVENT, value, change.news)

    async def _end(self, subject: Subject, lease: Lease, market: Market, settled: Settlement) -> None:
        for doomed in settled.doomed:
            await self._doom(subject, lease, market, doomed)
        for instance in settled.destroy_again:
            await self._effects.destroy(lease, market, instance)

    async def _doom(self, subject: Subject, lease: Lease, market: Market, doomed: Doomed) -> None:
        instance = doomed.instance
        if doomed.host_failed:
            await self._ledger.fail_host(lease, instance, doomed.because, self._now())
        key = f"{subject.record.id}:lifecycle:{instance.label}"
        effect = await self._effects.stop(
            lease, 0, market, instance, intent_key=key, by="lifecycle", reason=doomed.because
        )
        words = f"machine {instance.instance_id} was given up: {doomed.because}"
        log.info("%s: %s (%s)", subject.key, words, effect.words)
        await self._runs.persist(subject.record.id, Trigger.EVENT, f"{instance.label} doomed", words)


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


def _time_limits(subject: Subject) -> dict[Phase, timedelta]:
    limits = subject.spec.fleet.timeouts
    return {
        Phase.REQUESTED: limits.loading,
        Phase.LOADING: limits.loading,
        Phase.REGISTERED: limits.registered,
        Phase.BENCHMARKING: limits.benchmarking,
    }
