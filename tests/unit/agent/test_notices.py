"""Alerts on their way out: each to its end, and as many agents at once as may be."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.delivery import Addressed, Delivery
from fleetagent.agent.notices import MOST_AT_ONCE, Notices
from fleetagent.domain.notices import Notice, NoticeKind, Words
from fleetagent.domain.receivers import Receiver, Standing
from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import SecretKeyRef
from fleetagent.errors import TryLater
from fleetagent.ports.notices import Claim
from support.fakes import QuietCluster

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SOON = 5.0
REF = SecretKeyRef(name="pager", key="urls")
HOUR = timedelta(hours=1)


def a_resource(key: AgentKey) -> dict[str, Any]:
    alerts = {"notifySecretRef": {"name": REF.name, "key": REF.key}}
    return {"metadata": {"namespace": key.namespace, "name": key.name, "uid": "one"}, "spec": {"alerts": alerts}}


class AllDue:
    """An outbox in which something waits for each of these."""

    def __init__(self, keys: frozenset[AgentKey]) -> None:
        self._keys = keys

    async def due(self) -> frozenset[AgentKey]:
        return self._keys

    async def remind(self) -> None:
        return None


class Delivering:
    """Counts who is delivered for, and how many at once."""

    def __init__(self, *, until: int) -> None:
        self.served: list[AgentKey] = []
        self.most = self._now = 0
        self._until = until
        self.all_served = asyncio.Event()

    async def __call__(self, to: Addressed, _: SecretKeyRef) -> Standing | None:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        self.served.append(to.key)
        if len(self.served) == self._until:
            self.all_served.set()
        return None

    def end(self) -> None:
        return None


class Lasting(Delivering):
    """Is under way until the process ends."""

    def __init__(self, *, until: int) -> None:
        super().__init__(until=until)
        self.begun = 0
        self.all_begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def __call__(self, to: Addressed, ref: SecretKeyRef) -> Standing | None:
        self.begun += 1
        if self.begun == self._until:
            self.all_begun.set()
        await self.may_end.wait()
        return await super().__call__(to, ref)

    def end(self) -> None:
        self.may_end.set()


async def test_a_thousand_agents_with_an_alert_at_the_same_moment_do_not_wait_for_further_looks() -> None:
    keys = [AgentKey("fleet", f"porep-{number}") for number in range(1000)]
    deliver = Delivering(until=len(keys))
    notices = Notices(AllDue(frozenset(keys)), deliver, now=lambda: NOON, every=HOUR)  # type: ignore[arg-type]
    work = asyncio.create_task(notices.run(lambda: map(a_resource, keys), lambda _: None))

    await asyncio.wait_for(deliver.all_served.wait(), SOON)
    work.cancel()
    await notices.close()

    assert set(deliver.served) == set(keys)
    assert deliver.most == MOST_AT_ONCE


async def test_whoever_waits_for_a_turn_begins_nothing_once_the_process_ends() -> None:
    keys = [AgentKey("fleet", f"porep-{number}") for number in range(3 * MOST_AT_ONCE)]
    deliver = Lasting(until=MOST_AT_ONCE)
    notices = Notices(AllDue(frozenset(keys)), deliver, now=lambda: NOON, every=HOUR)  # type: ignore[arg-type]
    work = asyncio.create_task(notices.run(lambda: map(a_resource, keys), lambda _: None))

    await asyncio.wait_for(deliver.all_begun.wait(), SOON)
    work.cancel()
    await asyncio.wait_for(notices.close(), SOON)

    assert len(deliver.served) == MOST_AT_ONCE


class Forgetful:
    """An outbox that cannot be reached when the first receiver has taken its message."""

    def __init__(self) -> None:
        self.marked: list[str] = []

    async def claim(self, _: AgentKey) -> Claim:
        notice = Notice(1, 17, NoticeKind.NEW, 0, "OverBudget", "warning", "over budget", None, NOON, NOON)
        return Claim(1, "mark", (notice,))

    async def taken(self, _: Claim, __: Sequence[int], mark: str) -> None:
        if not self.marked:
            self.marked.append("lost")
            raise TryLater("database: gone")
        self.marked.append(mark)


class Slow:
    """A pager whose second receiver takes its time."""

    async def send(self, receiver: Receiver, _: Words) -> None:
        for _turn in range(10 * (receiver.line - 1)):
            await asyncio.sleep(0)


class Secret(QuietCluster):
    """Names two receivers."""

    async def secret(self, *_: str) -> str:
        return "json://one.example\njson://two.example"


async def test_what_fails_for_one_receiver_leaves_no_message_behind_that_is_sent_without_being_seen() -> None:
    outbox = Forgetful()
    parts = SimpleNamespace(outbox=outbox, pager=Slow(), cluster=Secret(), meter=Metrics())
    deliver = Delivery(**vars(parts), now=lambda: NOON, steady=lambda: 0.0, web_url=None)

    with pytest.raises(TryLater, match="database: gone"):
        await deliver(Addressed(AgentKey("fleet", "porep"), "one", REF), REF)

    assert outbox.marked == ["lost", Receiver(2, "json://two.example").mark]
