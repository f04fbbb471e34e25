"""Launch and stop: the intent is written, then the market hears of it, then the result is written.

A create is never repeated. What is not clear stays in the ledger as unknown until a look at the market settles it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fleetagent.agent.clock import Now
from fleetagent.agent.unbroken import unbroken
from fleetagent.domain.fleet import Instance, Order
from fleetagent.domain.records import LaunchIntent, Lease, Run
from fleetagent.errors import BadResource, Denied, LeaseLost, NotStorable, TryLater, Unclear
from fleetagent.ports import Agents, Ledger, Market
from fleetagent.ports.world import DESTROYED_TOGETHER

log = logging.getLogger(__name__)

MIN_RATE = "MIN_RATE"
MOST_ONE_BY_ONE = 5
"""Machines that a single look asks for one after another: the market takes a call every few seconds."""
MOST_TURNS = 10_000
"""So many machines are remembered as asked for by themselves."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A launch that the guardrails have let pass."""

    intent: LaunchIntent
    offer_id: str
    image: str
    disk_gb: int
    onstart: str
    env: Mapping[str, str] = field(repr=False)

    @property
    def order(self) -> Order:
        """What the market is asked for."""
        return Order(self.offer_id, self.intent.label, self.image, self.disk_gb, dict(self.env), self.onstart)


@contextlib.contextmanager
def _written_down_later() -> Iterator[None]:
    """What the market did is not undone by a record that fails: the intent stands, and the next look settles it."""
    try:
        yield
    except (TryLater, LeaseLost, NotStorable) as error:
        log.warning("the result of an effect could not be written down (%s); a look at the market settles it", error)


@dataclass(frozen=True, slots=True)
class Effect:
    """How it went: `happened` is None when nobody knows yet."""

    happened: bool | None
    instance_id: str
    words: str


class Effects:
    """The only place that makes the market rent or destroy anything."""

    def __init__(self, agents: Agents, ledger: Ledger, now: Now) -> None:
        self._agents = agents
        self._ledger = ledger
        self._now = now
        self._turns: dict[str, int] = {}

    async def launch(self, run: Run, market: Market, wanted: Wanted) -> Effect:
        """Rent one machine, once. `LeaseLost` before anything has begun."""
        action_id = await self._ledger.intend_launch(run, wanted.intent, self._now())
        unwanted = asyncio.Event()
        renting = self._rent(run.lease, action_id, market, wanted.order, unwanted)
        return await unbroken(renting, on_cancel=unwanted.set)

    async def _rent(
        self, lease: Lease, action_id: int, market: Market, order: Order, unwanted: asyncio.Event
    ) -> Effect:
        async def may_begin() -> None:
            """The market's own pace may hold the call back for long: the run may be over and the lease lost by then."""
            if unwanted.is_set():
                raise Denied("CalledOff", "the run was ended before the call left")
            await self._agents.check(lease)

        try:
            provider_id = await market.launch(order, may_begin)
        except (Denied, TryLater, BadResource) as no:
            because = f"{no.code}: {no}" if isinstance(no, Denied) else str(no)
            with _written_down_later():
                await self._ledger.not_launched(lease, action_id, because, self._now())
            return Effect(happened=False, instance_id=order.label, words=str(no))
        except Unclear as doubt:
            with _written_down_later():
                await self._ledger.unclear(lease, action_id, str(doubt), doubt.provider_id)
            words = f"not clear whether it was rented ({doubt}); it counts as rented until that is settled"
            return Effect(happened=None, instance_id=doubt.provider_id or order.label, words=words)
        with _written_down_later():
            await self._ledger.launched(lease, action_id, provider_id)
        return Effect(happened=True, instance_id=provider_id, words="launched")

    async def stop(
        self, lease: Lease, run_id: int, market: Market, instance: Instance, *, intent_key: str, by: str, reason: str
    ) -> Effect:
        """Destroy one machine of ours; it is `stopping` until a complete listing lacks it."""
        now = self._now()
        await self._ledger.intend_stop(lease, run_id, instance, intent_key=intent_key, by=by, reason=reason, now=now)
        return await unbroken(self.destroy(lease, market, instance))

    async def destroy(self, lease: Lease, market: Market, instance: Instance) -> Effect:
        """Ask the market to destroy what the ledger calls stopping; asked again until it is gone."""
        if not _is_proved_ours(instance):
            words = "it has not been seen on the market yet; it is destroyed as soon as it is"
            return Effect(happened=None, instance_id=instance.instance_id, words=words)
        try:
            await market.destroy(instance.instance_id, lambda: self._agents.check(lease))
        except (Denied, TryLater, Unclear, BadResource) as doubt:
            words = f"the market did not take it ({doubt}); it is asked again until the machine is gone"
            return Effect(happened=None, instance_id=instance.instance_id, words=words)
        with _written_down_later():
            await self._ledger.stop_asked(lease, instance.label, self._now())
        return Effect(happened=True, instance_id=instance.instance_id, words="destroyed; it bills until it is gone")

    async def stop_all(
        self, lease: Lease, market: Market, instances: Iterable[Instance], *, key: str, by: str, reason: str
    ) -> None:
        """As `stop` for all of them: the intents first, each with a key of its own, then as few calls as can be."""
        stopping = tuple(instances)
        for instance in stopping:
            key_of_it = f"{key}:{instance.label}"
            now = self._now()
            await self._ledger.intend_stop(lease, 0, instance, intent_key=key_of_it, by=by, reason=reason, now=now)
        await self.destroy_all(lease, market, stopping)

    async def destroy_all(self, lease: Lease, market: Market, instances: Iterable[Instance]) -> None:
        """As `destroy` for all that the ledger calls stopping; what is not taken is asked for at the next look.

        What was asked for before and is still there is asked for by itself: perhaps it was asked for together in vain.
        """
        ours = [i for i in instances if _is_proved_ours(i)]
        if ours:
            await unbroken(self._destroy_all(lease, market, ours))

    async def _destroy_all(self, lease: Lease, market: Market, instances: Sequence[Instance]) -> None:
        singly = [i for i in instances if i.destroy_asked_at is not None]
        first = [i for i in instances if i.destroy_asked_at is None]
        for start in range(0, len(first), DESTROYED_TOGETHER):
            together = first[start : start + DESTROYED_TOGETHER]
            if len(together) == 1 or not await self._destroy_together(lease, market, together):
                singly += together
        for instance in self._longest_not_asked_for(singly)[:MOST_ONE_BY_ONE]:
            effect = await self.destroy(lease, market, instance)
            if not effect.happened:
                log.warning("machine %s: %s", effect.instance_id, effect.words)

    def _longest_not_asked_for(self, instances: Sequence[Instance]) -> list[Instance]:
        """A few that the market never takes must not keep the others from being asked for."""
        in_turn = sorted(instances, key=lambda instance: self._turns.get(instance.label, 0))
        if len(self._turns) > MOST_TURNS:
            self._turns.clear()  # nothing but an order is lost
        last = max(self._turns.values(), default=0)
        self._turns |= {i.label: last + place for place, i in enumerate(in_turn[:MOST_ONE_BY_ONE], start=1)}
        return in_turn

    async def _destroy_together(self, lease: Lease, market: Market, instances: Sequence[Instance]) -> bool:
        """Whether the market took it; a complete list shows later what came of it."""
        ids = [i.instance_id for i in instances]
        try:
            await market.destroy_together(ids, lambda: self._agents.check(lease))
        except (Denied, TryLater, Unclear, BadResource) as doubt:
            log.warning("%s machines are asked for one by one: %s", len(ids), doubt)
            return False
        with _written_down_later():
            for instance in instances:
                await self._ledger.stop_asked(lease, instance.label, self._now())
        return True


def _is_proved_ours(instance: Instance) -> bool:
    """Whether a complete list has shown it under our label: an answer to a launch may name somebody else's machine."""
    return instance.provider_id is not None and instance.market_status is not None
