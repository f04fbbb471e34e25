"""What happens to the machines when the resource goes: destroyed and seen to be gone, or retained on purpose."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from fleetagent.agent.clock import Now
from fleetagent.agent.effects import Effects
from fleetagent.agent.lease import Ownership
from fleetagent.agent.lifecycle import Lifecycle
from fleetagent.agent.report import Known, Report
from fleetagent.agent.subject import Subject, label_prefix
from fleetagent.domain.fleet import FleetUnknown, Instance, Phase
from fleetagent.domain.records import AgentKey, Lease
from fleetagent.domain.resource import Annotation, DeletionPolicy, FleetAgent, Metadata
from fleetagent.domain.settlement import Change
from fleetagent.domain.status import Finding
from fleetagent.errors import BadResource, LeaseLost, NotStorable, TryLater
from fleetagent.ports import Agents, Cluster, Ledger, Runs, Worlds

log = logging.getLogger(__name__)

SAID_AGAIN_AFTER = timedelta(seconds=20)


class Deletion:
    """Called again and again until nothing is left; each call is one step."""

    def __init__(
        self,
        cluster_name: str,
        *,
        agents: Agents,
        runs: Runs,
        ledger: Ledger,
        worlds: Worlds,
        cluster: Cluster,
        report: Report,
        lifecycle: Lifecycle,
        effects: Effects,
        now: Now,
        ownership: Ownership,
    ) -> None:
        self._now = now
        self._ownership = ownership
        self._said: dict[str, tuple[str, datetime]] = {}
        self._cluster_name = cluster_name
        self._agents = agents
        self._runs = runs
        self._ledger = ledger
        self._worlds = worlds
        self._cluster = cluster
        self._report = report
        self._known: dict[str, Known] = {}
        self._lifecycle = lifecycle
        self._effects = effects

    async def __call__(self, body: Mapping[str, Any]) -> str | None:
        """None when the resource may go, else a sentence about what keeps it."""
        meta = Metadata.read(body["metadata"])
        try:
            keeps = await self._step(body, meta)
        except (BadResource, LeaseLost, NotStorable, TryLater) as error:
            keeps = f"{error}; {_way_out('')}"
            if Annotation.ABANDON in meta.annotations:
                await self._say(meta, "MachinesAbandoned", f"if there are any, nobody watches them any more: {error}")
                keeps = None
        if keeps is not None:
            await self._say(meta, "DeletionWaits", keeps)
            await self._show(body, meta, keeps)
        else:
            self._forget(meta)
        return keeps

    async def gone(self, body: Mapping[str, Any]) -> None:
        """The resource is no more. If it went without us, its finalizer taken off, say what it has left behind."""
        meta = Metadata.read(body["metadata"])
        key = AgentKey(meta.namespace, meta.name)
        try:
            record = await self._agents.meet(key, meta.uid, floor=0, handled={})
            lease = None if record.deleted else await self._agents.take_lease(record.id)
            if lease is None:
                return  # its end is known, or another process sees to it
            live = await self._ledger.instances(record.id)
            await self._agents.forget(lease, meta.uid)
            await self._agents.release(lease)
        except (LeaseLost, TryLater) as error:
            log.warning("%s is no more, which could not be written down: %s", key, error)
            return
        if live:
            names = ", ".join(i.instance_id for i in live[:10])
            words = f"its finalizer was taken off: nobody watches its machines any more, they bill: {names}"
            log.warning("%s is no more; %s", key, words)
            await self._say(meta, "MachinesAbandoned", words)
        self._forget(meta)

    def _forget(self, meta: Metadata) -> None:
        self._said.pop(meta.uid, None)
        self._known.pop(meta.uid, None)
        self._worlds.forget(meta.uid)
        self._report.forget(AgentKey(meta.namespace, meta.name))

    async def _step(self, body: Mapping[str, Any], meta: Metadata) -> str | None:
        agent = FleetAgent.stored(body)
        key = AgentKey(meta.namespace, meta.name)
        record = await self._agents.meet(key, meta.uid, floor=agent.status.last_run_id or 0, handled={})
        if record.deleted:
            return None  # all that was left is the finalizer: whoever was to take it off could not
        lease = await self._agents.take_lease(record.id)
        if lease is None:
            return "another process still works for this agent"
        subject = Subject(agent, record, label_prefix(self._cluster_name, key))
        try:
            async with self._ownership.kept(lease):
                await self._runs.interrupt_stale(lease)  # of a process that died; no keeper comes any more
                keeps = await self._end(subject, lease)
                if keeps is None:
                    await self._agents.forget(lease, meta.uid)
        finally:
            await self._agents.release(lease)
        return keeps

    async def _end(self, subject: Subject, lease: Lease) -> str | None:
        live = await self._ledger.instances(subject.record.id)
        names = ", ".join(i.instance_id for i in live[:10])
        if subject.spec.deletion_policy is DeletionPolicy.RETAIN:
            if live:
                await self._say(subject.agent.metadata, "MachinesRetained", f"they go on and bill: {names}")
            return None
        if subject.agent.said(Annotation.ABANDON) is not None:
            if live:
                words = f"nobody watches them any more, they bill: {names}"
                await self._say(subject.agent.metadata, "MachinesAbandoned", words)
                # else whoever has the name next could work with no other account than theirs, for ever
                await self._ledger.settle(lease, [_given_up(i, self._now()) for i in live], self._now())
            return None
        try:
            market = await self._worlds.market(subject.agent)
        except BadResource as error:
            return await self._unread(subject, str(error), names)
        fleet = (await self._lifecycle.look(subject, lease, market)).fleet
        if isinstance(fleet, FleetUnknown):
            return await self._unread(subject, f"the fleet is unknown ({fleet.because})", names)
        running = [i for i in fleet.instances if i.phase is not Phase.STOPPING and i.provider_id is not None]
        key = f"{subject.record.id}:deletion:{subject.record.uid}"
        await self._effects.stop_all(lease, market, running, key=key, by="deletion", reason="the resource is deleted")
        if not fleet.instances:
            return None
        return f"machines are being destroyed: {', '.join(i.instance_id for i in fleet.instances[:10])}; {_way_out('')}"

    async def _unread(self, subject: Subject, because: str, names: str) -> str | None:
        """The market says nothing: wait if there may be machines; the status too may know of some."""
        reported = subject.agent.status.fleet
        if names or (reported is not None and reported.instances):
            return f"{because}; {_way_out(names)}"
        words = f"the market could not be read at the end; no machine of this agent is known: {because}"
        await self._say(subject.agent.metadata, "MarketNotRead", words)
        return None

    async def _show(self, body: Mapping[str, Any], meta: Metadata, keeps: str) -> None:
        """In the status too: a namespace that is being deleted as well takes no new Event."""
        waits = Finding("Ready", "False", "DeletionWaits", keeps)
        known = self._known.setdefault(meta.uid, Known())
        await self._report.complain(body, known, waits, self._now(), announce=False)

    async def _say(self, meta: Metadata, reason: str, message: str) -> None:
        """Repeated while it lasts, but not at every step."""
        now, before = self._now(), self._said.get(meta.uid)
        if before is not None and before[0] == reason and now - before[1] < SAID_AGAIN_AFTER:
            return
        self._said[meta.uid] = (reason, now)
        await self._cluster.event(meta.namespace, meta.name, meta.uid, kind="Warning", reason=reason, message=message)


def _given_up(instance: Instance, now: datetime) -> Change:
    """The ledger holds it for live no more; should a list show it to an agent of this name, it is adopted."""
    because = instance.failure or "abandoned with its resource"
    return Change(replace(instance, phase=Phase.FAILED, phase_since=now, failure=because))


def _way_out(names: str) -> str:
    machines = f" (these go on and bill: {names})" if names else ""
    return f"to give them up{machines}, annotate the resource with {Annotation.ABANDON.value}=yes"
