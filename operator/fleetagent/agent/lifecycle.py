"""One look at the market: list, settle, end what must end. By code, in every mode, whatever the model thinks."""

import asyncio
import logging
from datetime import timedelta

from fleetagent.agent.clock import Now
from fleetagent.agent.effects import Effects
from fleetagent.agent.subject import Subject
from fleetagent.domain.fleet import Fleet, FleetUnknown, Instance, Phase
from fleetagent.domain.records import Lease
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.settle import Doomed, Settlement, SettleLimits, settle
from fleetagent.errors import BadResource, FleetUnreadable, TryLater
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
            await self._same_account(subject, lease, market)
            listed = await market.machines()
        except FleetUnreadable as error:
            return await self._unknown(subject, str(error), known)
        except TryLater as error:
            return await self._unknown(subject, str(error), known)
        except BadResource as error:
            return await self._unknown(subject, str(error), known)
        ours = [r for r in listed if (r.label or "").startswith(subject.label_prefix)]
        limits = SettleLimits(self._limits.settling, self._limits.confirm_gone, _time_limits(subject))
        settled = settle(known, ours, self._now(), limits)
        if settled.ask:
            gone, there = await _ask_each(market, settled.ask)
            settled = settle(known, ours, self._now(), limits, said_gone=gone, said_there=there)
        await self._write(subject, lease, settled)
        await self._end(subject, lease, market, settled)
        if isinstance(settled.fleet, FleetUnknown):
            return await self._unknown(
                subject, settled.fleet.because, settled.fleet.last_known.instances if settled.fleet.last_known else ()
            )
        await self._runs.resolve_alerts(subject.record.id, "FleetUnknown")
        if settled.doomed or settled.destroy_again:
            return Fleet(await self._ledger.instances(subject.record.id), self._now())
        return settled.fleet

    async def _same_account(self, subject: Subject, lease: Lease, market: Market) -> None:
        """Machines belong to one account: another one's list says nothing about them."""
        account = await market.account_id()
        if subject.record.account_id is None:
            await self._agents.remember_account(lease, account)
        elif subject.record.account_id != account:
            raise BadResource(
                "FleetKnown",
                "AccountChanged",
                f"the API key belongs to account {account}, this agent's machines to {subject.record.account_id}: "
                "put the old account's key back until they are gone",
            )

    async def _unknown(self, subject: Subject, because: str, known: tuple[Instance, ...]) -> FleetUnknown:
        await self._runs.raise_alert(
            subject.record.id,
            0,
            "FleetUnknown",
            "warning",
            f"the fleet is unknown, nothing is launched or stopped: {because}",
        )
        return FleetUnknown(because, Fleet(known, self._now()))

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
        except TryLater as error:
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
