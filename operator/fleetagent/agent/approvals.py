"""Actions that wait for a person: what people say of them, their expiry, and the run that takes an approval up.

An approved action is checked afresh, as if the model asked for it now, and begins as the very row that waited: whatever
crashes in between, that row begins once.
"""

import logging
from dataclasses import replace

from fleetagent.agent.acting import NO_MARKET, destroy, rent, tell_refusal
from fleetagent.agent.clock import Now
from fleetagent.agent.desk import Desk
from fleetagent.agent.subject import Subject
from fleetagent.domain.approval import Answer, Verdict, asked_for, listed, named_in
from fleetagent.domain.facts import PERSON, Facts, Launch, Refusal, Stop
from fleetagent.domain.fleet import Fleet, Offer, Waiting
from fleetagent.domain.guardrails import check_approved
from fleetagent.domain.records import Asked, Lease
from fleetagent.domain.resource import Annotation
from fleetagent.errors import BadResource, Denied, TryLater
from fleetagent.ports import Cluster, Ledger, Market

log = logging.getLogger(__name__)


class Approvals:
    """What people say by the annotations `approve` and `reject`. An Event answers for each action that they name."""

    def __init__(self, ledger: Ledger, cluster: Cluster, now: Now) -> None:
        self._ledger = ledger
        self._cluster = cluster
        self._now = now

    async def approve(self, subject: Subject, value: str, *, say_none_waits: bool) -> bool:
        """Free what waits, and call for the run that takes it up; False when nothing of it waits.

        `say_none_waits` says that too: for whoever remembers that the annotation was served, or it would be said again.
        """
        ids, unread = named_in(subject.agent.said(Annotation.APPROVE) or "")
        answers, called = await self._ledger.approve(subject.record.id, ids, value, self._now())
        if new := [a for a in answers if a.is_new]:
            await self._say(subject, "Normal", "ActionApproved", f"{_names(new)}: checked once more, then done")
        approved = any(a.verdict is Verdict.APPROVED for a in answers)
        if called or (say_none_waits and not approved):
            rest = [a for a in answers if a.verdict is not Verdict.APPROVED]
            await self._nothing_waits(subject, Annotation.APPROVE, rest, unread)
        return approved

    async def reject(self, subject: Subject) -> tuple[tuple[Answer, ...], tuple[str, ...]]:
        """End what waits; what is left to say of the others, and of what could not be read."""
        ids, unread = named_in(subject.agent.said(Annotation.REJECT) or "")
        answers = await self._ledger.reject(subject.record.id, ids, self._now())
        if new := [a for a in answers if a.is_new]:
            await self._say(subject, "Normal", "ActionRejected", f"{_names(new)}: the agent is told in its next run")
        return tuple(a for a in answers if a.verdict is not Verdict.REJECTED), unread

    async def reject_and_answer(self, subject: Subject) -> None:
        """As `reject`, and say what became of the others; for whoever remembers that the annotation was served."""
        rest, unread = await self.reject(subject)
        await self._nothing_waits(subject, Annotation.REJECT, rest, unread)

    async def expire(self, subject: Subject, lease: Lease) -> None:
        """End what nobody decided in time."""
        for action in await self._ledger.expire(lease, self._now()):
            why = "no run took the approval up in time" if action.approved else "nobody approved it in time"
            await self._say(subject, "Warning", "ApprovalExpired", f"{action.name} ({asked_for(action)}): {why}")

    async def _nothing_waits(
        self,
        subject: Subject,
        annotation: Annotation,
        answers: tuple[Answer, ...] | list[Answer],
        unread: tuple[str, ...],
    ) -> None:
        said = listed(answers, unread)
        named = subject.agent.said(annotation) or ""
        if said or not named.strip(" ,;"):
            names_none = "names no action; write for example action-42,action-43"
            await self._say(subject, "Warning", "NothingWaiting", f"{annotation.value}: {said or names_none}")

    async def _say(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        meta = subject.agent.metadata
        await self._cluster.event(meta.namespace, meta.name, meta.uid, kind=kind, reason=reason, message=message)


def _names(answers: list[Answer]) -> str:
    return ", ".join(f"action-{a.action_id}" for a in answers)


async def take_up(desk: Desk) -> None:
    """Begin, or refuse, each action that a person approved. No model is asked."""
    approved = [action for action in desk.pulse.waiting if action.approved]
    for action in approved:
        await desk.catch_up()
        try:
            refusal = await (_launch(desk, action) if action.kind == "launch" else _stop(desk, action))
        except Denied as gone:  # rejected, or begun, since we looked
            log.info("%s run %s: %s: %s", desk.subject.key, desk.run.run_id, action.name, gone)
            continue
        except BadResource as error:
            refusal = Refusal(error.reason, str(error))
        except TryLater as error:  # whoever approved it hears of it now, not when a run has broken four times
            refusal = Refusal("NotPossibleNow", str(error))
        if refusal is not None and await desk.services.ledger.refuse_approved(
            desk.run, action.action_id, refusal, desk.services.now()
        ):
            await tell_refusal(desk, action.kind, refusal, f"{action.name} ({asked_for(action)}), approved,")
    if approved:
        await desk.count_again()


async def _launch(desk: Desk, action: Waiting) -> Refusal | None:
    shown, market = action.offer, desk.market
    if shown is None or market is None:
        return NO_MARKET
    async with market.buying():
        return await _buy(desk, action, shown, market)


async def _buy(desk: Desk, action: Waiting, shown: Offer, market: Market) -> Refusal | None:
    offer = await market.offer(shown.offer_id, desk.subject.spec.fleet.vast.instance.disk_gb)
    facts = replace(await _facts(desk, action, offer), offers_shown={shown.offer_id: shown})
    if refusal := check_approved(Launch(shown.offer_id, action.reason, PERSON), facts):
        return refusal
    if facts.offer_now is not None:
        await rent(desk, market, facts.offer_now, _asked(action))
    return None


async def _stop(desk: Desk, action: Waiting) -> Refusal | None:
    facts = await _facts(desk, action, None)
    instance = facts.fleet.named(action.label or "") if isinstance(facts.fleet, Fleet) else None
    wished = instance.instance_id if instance is not None else action.what
    if refusal := check_approved(Stop(wished, action.reason, PERSON), facts):
        return refusal
    if instance is None or desk.market is None:
        return NO_MARKET
    await destroy(desk, desk.market, instance, _asked(action))
    return None


def _asked(action: Waiting) -> Asked:
    return Asked(action.kind, action.intent_key, action.by, {"reason": action.reason}, action.action_id)


async def _facts(desk: Desk, action: Waiting, offer: Offer | None) -> Facts:
    """Fresh facts without the action itself: it counted while it waited. Limits by the run are those of its own run."""
    facts = await desk.facts(offer, await desk.services.cluster.installation_stop())
    ledger, launches = desk.services.ledger, action.kind == "launch"
    its_run = await ledger.pulse(desk.run.agent_id, action.run_id, facts.now)
    return replace(
        facts,
        fleet=facts.fleet.without_waiting(action.action_id) if isinstance(facts.fleet, Fleet) else facts.fleet,
        launches_this_run=its_run.launches_this_run - launches,
        launches_last_hour=facts.launches_last_hour - launches,
        stops_this_run=its_run.stops_this_run - (not launches),
    )
