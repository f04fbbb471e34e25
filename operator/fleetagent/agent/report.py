"""Status from facts, written by nobody else, and only when something in it changed."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from fleetagent.agent.judgement import TOKENS_USED_UP, budget_used_up
from fleetagent.agent.subject import Subject
from fleetagent.agent.telling import telling
from fleetagent.agent.written import Written, as_patch
from fleetagent.domain.fallback import controller_decides
from fleetagent.domain.fleet import Fleet
from fleetagent.domain.news import news
from fleetagent.domain.observation import Alert, Observation
from fleetagent.domain.receivers import Standing, delivered
from fleetagent.domain.records import AgentKey, Outcome, Pulse, RunReport
from fleetagent.domain.resource import (
    Condition,
    FleetAgentStatus,
    FleetStatus,
    Metadata,
    Mode,
    RunStatus,
    SessionStatus,
    SpendStatus,
    WaitingActionStatus,
    WakeStatus,
    fields,
    pruned,
    readable_status,
)
from fleetagent.domain.resource.status import MAX_WAITING_ACTIONS, WAKES_SHOWN
from fleetagent.domain.schedule import Wake
from fleetagent.domain.status import Finding, Health, findings, merged, stalled
from fleetagent.domain.text import neutral
from fleetagent.errors import TryLater
from fleetagent.ports import Cluster, Meter

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Known:
    """What the keeper of one agent knows for its report; it lives as long as the keeper."""

    seen: Observation | None = None
    pulse: Pulse | None = None
    health: Health = field(default_factory=Health)
    health_of_run: int = 0
    """The run that `health` speaks of."""
    conditions: tuple[Condition, ...] = ()
    written: Written = field(default_factory=Written)
    dropped: tuple[str, ...] | None = None
    """Fields of the last whole report that the API server did not keep; None before the first one."""
    receivers: Standing | None = None
    """How it stands with those whom alerts go to, as far as this process knows."""
    gone: bool = False
    """There was no such resource when the last report was written, whatever a watch has said or missed."""

    def hear_of(self, subject: Subject, last: RunReport | None) -> None:
        """Take over what the database knows of a run that was not ours, or that did not come to its end."""
        if last is None or last.outcome is None or last.run_id == self.health_of_run:
            return
        failing = subject.record.model_failing_since is not None
        problem = None
        if failing and last.outcome == Outcome.FAILED and last.reason and last.error:
            problem = (last.reason, last.error)
        asked = not failing and subject.record.session.estimated_tokens is not None
        self.health = Health(problem, asked, self.health.problems, Outcome(last.outcome), last.error)
        self.health_of_run = last.run_id
        self.conditions = ()  # another process may have written newer ones than we remember


class Report:
    """The single writer of `.status`."""

    def __init__(self, cluster: Cluster, meter: Meter) -> None:
        self._cluster = cluster
        self._meter = meter
        self._dropped: frozenset[str] = frozenset()

    async def __call__(
        self,
        subject: Subject,
        known: Known,
        *,
        last: RunReport | None,
        wakes: tuple[Wake, ...],
        next_run_at: datetime | None,
        now: datetime,
    ) -> None:
        """Write the status unless it says what it said before (a new `observedAt` alone is no change)."""
        meta = subject.agent.metadata
        before = known.conditions or subject.agent.status.conditions
        session = subject.record.session
        counts = session.counts if session.counts and session.counts.endpoint == subject.endpoint else None
        health = replace(
            known.health,
            feedback_dropped=session.feedback_dropped,
            counts=counts,
            controller_since=_controller_since(subject, known.pulse, last),
            delivery=_delivered(subject, known),
        )
        stored = subject.agent.status.to_merge_patch()
        for _ in range(2):  # what the API server drops is known after a write, and said by another one
            found = findings(subject.spec, known.seen, replace(health, dropped=known.dropped), now, before)
            known.conditions = merged(before, found, now, meta.generation)
            with telling(run=last.run_id if last is not None else None):
                await self._announce(meta, before, known.conditions)
            said = _status(subject, known, last, wakes, next_run_at)
            self._count(subject, known, said, wakes)
            status = said.to_merge_patch()
            if known.written.stands(status, stored, now):
                return
            came_back = await self._write(meta, known, status, stored, now)
            if came_back is None:
                return
            known.dropped, before = pruned(status, came_back), known.conditions
            self._note_the_schema(fields(status), known.dropped)

    def _count(self, subject: Subject, known: Known, said: FleetAgentStatus, wakes: tuple[Wake, ...]) -> None:
        waiting = len(said.waiting_actions) if known.pulse is None else len(known.pulse.waiting)
        self._meter.reported(subject.key, subject.spec, said, known.seen, wakes=len(wakes), waiting=waiting)

    def forget(self, key: AgentKey) -> None:
        """The resource is gone: nothing is told of it any more."""
        self._meter.forget(key)

    async def _write(
        self, meta: Metadata, known: Known, patch: Mapping[str, Any], stored: Mapping[str, Any], now: datetime
    ) -> Mapping[str, Any] | None:
        """The status as it is now; None if it was not written, or the resource is gone."""
        try:
            came_back = await self._cluster.patch_status(meta.namespace, meta.name, patch)
        except TryLater as error:
            log.warning("%s/%s: status not written: %s", meta.namespace, meta.name, error)
            return None
        known.written.note(patch, stored, came_back, now)
        if came_back is None and not known.gone:
            log.warning("%s/%s is no more: nothing is done for it unless it comes back", meta.namespace, meta.name)
        known.gone = came_back is None
        return came_back

    async def finds(self, meta: Metadata, known: Known) -> bool:
        """Whether a resource that was gone is there again, or one of its name is. `TryLater`."""
        known.gone = await self._cluster.patch_status(meta.namespace, meta.name, {}) is None
        return not known.gone

    def _note_the_schema(self, written: tuple[str, ...], dropped: tuple[str, ...]) -> None:
        """Of all agents together: they have one definition, but not the same fields to report."""
        known = self._dropped.difference(written).union(dropped)
        self._meter.fields_dropped(len(known))
        if known != self._dropped:
            names = ", ".join(sorted(known)) or "nothing any more"
            log.warning("the cluster's CustomResourceDefinition drops %s", names)
        self._dropped = known

    async def complain(
        self, body: Mapping[str, Any], known: Known, finding: Finding, now: datetime, *, announce: bool = True
    ) -> bool:
        """Write one problem, and that nothing is ready, beside the conditions that stand; whether that was new.

        All else stays as it is: nothing of it can be known now. Who has an Event of its own for it does not `announce`.
        """
        meta = Metadata.read(body["metadata"])
        before = known.conditions or readable_status(body.get("status") or {}).conditions
        ready = Finding("Ready", "False", finding.reason, finding.message)
        new = {finding.type: finding, **{f.type: f for f in stalled(ready)}, "Ready": ready}
        kept = tuple(c for c in before if c.type not in {*new, "Stalled"})
        known.conditions = (*kept, *merged(before, new.values(), now, meta.generation))
        self._meter.conditions(AgentKey(meta.namespace, meta.name), known.conditions)
        if announce:
            await self._announce(meta, before, known.conditions)
        said = FleetAgentStatus(observed_generation=meta.generation, conditions=known.conditions).to_wire()
        patch = {name: said[name] for name in ("observedGeneration", "conditions")}
        stored = as_patch(body.get("status") or {})
        if known.written.stands(patch, stored, now):
            return False
        await self._write(meta, known, patch, stored, now)
        return True

    async def alerts(self, meta: Metadata, alerts: Iterable[Alert]) -> None:
        """Give each alert to people by the id that they acknowledge it by."""
        for alert in alerts:
            of_run = f" (run {alert.run_id})" if alert.run_id else ""
            message = f"alert-{alert.id}: {alert.message}{of_run}"
            with telling(run=alert.run_id or None):
                await self._cluster.event(
                    meta.namespace, meta.name, meta.uid, kind="Warning", reason="Alert", message=message
                )

    async def _announce(self, meta: Metadata, before: Iterable[Condition], after: Iterable[Condition]) -> None:
        for said in news(before, after):
            await self._cluster.event(
                meta.namespace, meta.name, meta.uid, kind=said.kind, reason=said.reason, message=said.message
            )


def _delivered(subject: Subject, known: Known) -> Finding:
    """By what stands in the status now: another process may have sent what this one knows nothing of."""
    stands = subject.agent.status.conditions
    return delivered(asked=subject.spec.alerts is not None, standing=known.receivers, before=stands)


def _controller_since(subject: Subject, pulse: Pulse | None, last: RunReport | None) -> datetime | None:
    """Since when the model has failed, if the last run was the controller's; what is stored tells, so it survives."""
    since = subject.record.model_failing_since
    if last is None or subject.spec.mode is Mode.SUSPENDED:
        return None
    used_up = last.reason == TOKENS_USED_UP if pulse is None else budget_used_up(subject, pulse) is not None
    return since if controller_decides(subject.spec, since, last.started_at, tokens_used_up=used_up) else None


def _status(
    subject: Subject, known: Known, last: RunReport | None, wakes: tuple[Wake, ...], next_run_at: datetime | None
) -> FleetAgentStatus:
    record, handled = subject.record, subject.record.handled
    session = record.session
    return FleetAgentStatus(
        observed_generation=subject.agent.metadata.generation,
        last_run_id=max(record.last_run_id, last.run_id if last else 0),
        last_handled_request=handled.get("request"),
        last_handled_reset=handled.get("reset"),
        last_handled_message=handled.get("message"),
        last_handled_acknowledge=handled.get("acknowledge"),
        last_handled_approve=handled.get("approve"),
        last_handled_reject=handled.get("reject"),
        last_handled_session=handled.get("session"),
        session=SessionStatus(
            id=session.id,
            started_at=session.started_at,
            messages=session.messages_in_prompt,
            compactions=session.compactions,
            context_tokens=session.context_tokens,
            estimated_tokens=session.estimated_tokens,
            next_prompt_tokens=session.next_prompt_tokens,
        ),
        last_run=None if last is None else _run(last),
        next_run_at=next_run_at,
        pending_wakes=tuple(
            WakeStatus(id=w.id, at=w.at, reason=w.reason, asked_by_run=w.asked_by_run) for w in wakes[:WAKES_SHOWN]
        ),
        waiting_actions=subject.agent.status.waiting_actions if known.pulse is None else _waiting(known.pulse),
        fleet=(_fleet(known.seen) if known.seen else None) or subject.agent.status.fleet,
        spend=_spend(known.pulse) if known.pulse is not None else subject.agent.status.spend,
        open_alerts=known.pulse.open_alerts if known.pulse is not None else subject.agent.status.open_alerts,
        conditions=known.conditions,
    )


def _run(last: RunReport) -> RunStatus:
    return RunStatus(
        id=last.run_id,
        triggers=last.triggers,
        started_at=last.started_at,
        finished_at=last.finished_at,
        outcome=last.outcome,
        summary=last.summary or last.error,
    )


def _fleet(seen: Observation) -> FleetStatus | None:
    """The figures of this look if it was complete; else what the last complete one said stands, with its time."""
    if not isinstance(seen.fleet, Fleet) or seen.capacity is None:
        return None
    cap = seen.capacity
    return FleetStatus(
        instances=len(seen.fleet.instances),
        proving=cap.proving,
        on_the_way=cap.on_the_way,
        proofs_per_hour=Decimal(str(cap.proofs_per_hour)),
        projected_proofs_per_hour=Decimal(str(cap.projected_proofs_per_hour)),
        usd_per_hour=seen.fleet.usd_per_hour,
        observed_at=seen.at,
    )


def _waiting(pulse: Pulse) -> tuple[WaitingActionStatus, ...]:
    return tuple(
        WaitingActionStatus(
            id=action.name,
            kind=action.kind,
            what=neutral(action.what, 60),
            usd_per_hour=action.usd_per_hour,
            reason=neutral(action.reason, 500),
            expires_at=action.expires_at,
        )
        for action in pulse.waiting[:MAX_WAITING_ACTIONS]
    )


def _spend(pulse: Pulse) -> SpendStatus:
    return SpendStatus(
        fleet_usd_today=max(Decimal(0), pulse.usd_spent_today).quantize(Decimal("0.01")),
        model_tokens_today=pulse.model_tokens_today,
    )
