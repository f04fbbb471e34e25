"""What waits for one agent is brought to each of its receivers, marked off, put back or given up."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from fleetagent.agent.clock import Now
from fleetagent.domain.allowance import Allowances
from fleetagent.domain.notices import (
    MESSAGES_AT_ONCE,
    SECONDS_A_MESSAGE,
    Notice,
    again_in,
    batches,
    is_hopeless,
    words_of,
)
from fleetagent.domain.receivers import FIELD, Receiver, Standing, receivers_in
from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import Alerts, SecretKeyRef
from fleetagent.domain.status import Finding
from fleetagent.errors import BadResource, Denied, TryLater
from fleetagent.ports import Cluster, Meter
from fleetagent.ports.notices import Claim, Outbox, Pager

log = logging.getLogger(__name__)

TRIED_AGAIN = "; it is tried again"


@dataclass(frozen=True, slots=True)
class Addressed:
    """Whose alerts go where."""

    key: AgentKey
    uid: str
    ref: SecretKeyRef | None


def addressed(bodies: Iterable[Mapping[str, Any]]) -> dict[AgentKey, Addressed]:
    """Read from resources as they are stored: alerts go out even while the rest of a spec cannot be read."""
    found = {}
    for body in bodies:
        meta, alerts = body["metadata"], (body.get("spec") or {}).get("alerts")
        key = AgentKey(meta["namespace"], meta["name"])
        try:
            ref = Alerts.model_validate(alerts).notify_secret_ref if alerts else None
        except ValidationError:
            continue  # its own report says so; the others' alerts must not wait for that
        found[key] = Addressed(key, meta["uid"], ref)
    return found


@dataclass(slots=True)
class _Way:
    """What has come of one receiver in one delivery."""

    mark: str
    took: set[int] = field(default_factory=set)
    problem: Finding | None = None
    waits: timedelta = timedelta(0)


class Delivery:
    """One for the process. A receiver that fails is left alone until the next delivery; the others get theirs."""

    def __init__(
        self,
        outbox: Outbox,
        pager: Pager,
        cluster: Cluster,
        meter: Meter,
        *,
        now: Now,
        steady: Callable[[], float],
        web_url: str | None,
    ) -> None:
        self._outbox = outbox
        self._pager = pager
        self._cluster = cluster
        self._meter = meter
        self._now = now
        self._web_url = web_url
        self._allowances = Allowances(MESSAGES_AT_ONCE, SECONDS_A_MESSAGE, steady)
        self._is_ending = False

    def end(self) -> None:
        """Begin no further message."""
        self._is_ending = True

    async def check(self, to: Addressed, ref: SecretKeyRef) -> None:
        """Look at the Secret and its lines without sending anything: `BadResource`, `TryLater`."""
        for receiver in await self._receivers(to, ref):
            await self._pager.check(receiver)

    async def _receivers(self, to: Addressed, ref: SecretKeyRef) -> tuple[Receiver, ...]:
        """Read at each delivery: Secrets are replaced."""
        try:
            text = await self._cluster.secret(to.key.namespace, ref.name, ref.key)
        except Denied as error:
            raise BadResource("AlertsDelivered", error.code, f"{FIELD}: {error}") from error
        return receivers_in(text)

    async def __call__(self, to: Addressed, ref: SecretKeyRef) -> Standing | None:
        """Send what waits; how it stands then, or None where that was not found out."""
        claim = await self._outbox.claim(to.key)
        if claim is None:
            return None
        receivers: tuple[Receiver, ...] = ()
        ways: list[_Way] = []
        problem: Finding | None = None
        try:
            receivers = await self._receivers(to, ref)
        except BadResource as error:
            problem = Finding(error.condition, "False", error.reason, str(error))
        except TryLater as error:
            problem = Finding("AlertsDelivered", "False", "ReceiverFailed", f"{FIELD}: {error}{TRIED_AGAIN}")
        else:
            ways = await self._bring_all(claim, to, receivers)
            problem = next((way.problem for way in ways if way.problem is not None), None)
        standing = await self._settle(claim, to, ways, problem, everybody={receiver.mark for receiver in receivers})
        self._meter.undelivered(to.key, await self._outbox.waiting(to.key))
        return standing

    async def _bring_all(self, claim: Claim, to: Addressed, receivers: Sequence[Receiver]) -> list[_Way]:
        """All at once, each to its end: what failed for one must leave none behind that sends without being seen."""
        ways: list[_Way] = []
        brought = (self._bring(claim, to, receiver) for receiver in receivers)
        for way in await asyncio.gather(*brought, return_exceptions=True):
            if isinstance(way, BaseException):
                raise way
            ways.append(way)
        return ways

    async def _bring(self, claim: Claim, to: Addressed, receiver: Receiver) -> _Way:
        """All that one receiver has not got yet, until it fails."""
        way = _Way(receiver.mark)
        lacking = [notice for notice in claim.notices if receiver.mark not in notice.taken_by]
        for batch in batches(lacking):
            if self._is_ending:
                break
            wait_seconds = self._allowances.wait_seconds((to.key, receiver.mark))
            if wait_seconds > 0:
                way.waits = timedelta(seconds=wait_seconds)
                break
            try:
                await self._pager.send(receiver, words_of(batch, to.key, self._web_url))
            except BadResource as error:
                way.problem = Finding(error.condition, "False", error.reason, str(error))
            except TryLater as error:
                sentence = f"{FIELD}: {error}{TRIED_AGAIN}"
                way.problem = Finding("AlertsDelivered", "False", "ReceiverFailed", sentence)
            if way.problem is not None:
                log.warning("%s: %s", to.key, way.problem.message)
                self._meter.notified(to.key, "Failed")
                break
            ids = [notice.id for notice in batch]
            await self._outbox.taken(claim, ids, receiver.mark)
            way.took.update(ids)
            self._meter.notified(to.key, "Delivered")
            log.info(
                "%s: %s took %s", to.key, receiver.name, ", ".join(f"alert-{n.alert_id} ({n.kind})" for n in batch)
            )
        return way

    async def _settle(
        self, claim: Claim, to: Addressed, ways: Sequence[_Way], problem: Finding | None, *, everybody: set[str]
    ) -> Standing | None:
        """Mark off what everybody has, put the rest back, and give up what was tried for long enough."""
        now = self._now()
        done: list[int] = []
        hopeless: list[Notice] = []
        later: dict[timedelta, list[int]] = {}
        for notice in claim.notices:
            has = notice.taken_by | {way.mark for way in ways if notice.id in way.took}
            lacks = [way for way in ways if way.mark not in has]
            if everybody and everybody <= has:
                done.append(notice.id)
            elif problem is not None and is_hopeless(notice, now):
                hopeless.append(notice)
            elif lacks and all(way.problem is None for way in lacks):
                later.setdefault(max(way.waits for way in lacks), []).append(notice.id)
            else:
                later.setdefault(again_in(notice, now), []).append(notice.id)
        await self._outbox.sent(claim, done)
        for wait, ids in later.items():
            await self._outbox.put_back(claim, ids, wait, problem.message if problem is not None else None)
        if hopeless and problem is not None:
            await self._outbox.give_up(claim, [notice.id for notice in hopeless], problem.message)
            problem = await self._told_that_given_up(to, hopeless, problem)
        return Standing(problem, was_sent=True) if problem is not None or done else None

    async def _told_that_given_up(self, to: Addressed, hopeless: Sequence[Notice], problem: Finding) -> Finding:
        first, more = hopeless[0], len(hopeless) - 1
        which = f"alert-{first.alert_id} ({first.kind})" + (f" and {more} more" if more else "")
        because = problem.message.removesuffix(TRIED_AGAIN)
        sentence = f"{which} did not reach every receiver for hours, and nobody tries any more: {because}"
        log.warning("%s: %s", to.key, sentence)
        for _ in hopeless:
            self._meter.notified(to.key, "GivenUp")
        await self._cluster.event(
            to.key.namespace, to.key.name, to.uid, kind="Warning", reason="AlertNotDelivered", message=sentence
        )
        return Finding("AlertsDelivered", "False", "GivenUp", sentence)
