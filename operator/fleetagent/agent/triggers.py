"""Every agent's keeper, by name: a nudge finds it, a new resource makes it, a deletion ends it."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from fleetagent.agent.deletion import Deletion
from fleetagent.agent.departure import Departure
from fleetagent.agent.keeper import Keeper
from fleetagent.agent.keeping import Keeping
from fleetagent.domain.records import AgentKey
from fleetagent.errors import TryLater

log = logging.getLogger(__name__)


class Triggers:
    """What entry points call. Nothing here decides: what is due, the keeper finds out from what is persisted."""

    def __init__(self, keeping: Keeping, deletion: Deletion) -> None:
        self._keeping = keeping
        self._deletion = deletion
        self._keepers: dict[AgentKey, Keeper] = {}
        self._departures: dict[str, Departure] = {}
        self._closed = False
        self._heard: frozenset[tuple[AgentKey, str]] = frozenset()
        self._listening: asyncio.Task[None] | None = None

    def look(self, body: Mapping[str, Any]) -> None:
        """A resource as it is now. Returns at once."""
        if self._closed or body["metadata"].get("deletionTimestamp"):
            return
        key = key_of(body)
        keeper = self._keepers.get(key)
        if keeper is None:
            keeper = self._keepers[key] = Keeper(key, self._keeping)
        keeper.look(body)
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="what the database calls for")

    def beat(self, body: Mapping[str, Any]) -> None:
        """As `look`, for what is only remembered: a cut watch may have missed its end, and who has its name now."""
        keeper = self._keepers.get(key_of(body))
        if keeper is None or keeper.uid == body["metadata"]["uid"]:
            self.look(body)

    def changed(self, body: Mapping[str, Any]) -> None:
        """A resource as it is now, if it is kept already: its first look waits until its deletion can be held up."""
        if keeper := self._keepers.get(key_of(body)):
            keeper.look(body)

    async def _listen(self) -> None:
        """Ask for all agents at once, again and again, what was persisted by others, or left behind by the dead.

        Only what is new is worth a nudge: a keeper that was nudged knows what waits, and by itself when it is due.
        """
        while True:
            try:
                waiting = await self._keeping.agents.waiting()
            except TryLater as error:
                log.warning("what waits for the agents is not known: %s", error)
            except Exception:
                log.exception("what waits for the agents is not known; it is asked for again")
            else:
                for key in {key for key, _ in waiting - self._heard}:
                    self.nudge(key)
                self._heard = waiting
            await asyncio.sleep(self._keeping.listen_every.total_seconds())

    def kept(self) -> Iterator[Mapping[str, Any]]:
        """The resources that this process keeps, each as it was heard of last."""
        return (keeper.body for keeper in self._keepers.values())

    def nudge(self, key: AgentKey) -> None:
        """Something was persisted for this agent; if another process keeps it, that one hears of it within seconds."""
        if keeper := self._keepers.get(key):
            keeper.nudge()

    async def delete(self, body: Mapping[str, Any]) -> str | None:
        """The resource is being deleted. None when nothing of it is left, else what keeps it: to be called again."""
        await self._let_go_of(body)
        if self._closed:
            return "this process is ending; the next one goes on"
        uid = body["metadata"]["uid"]
        departure = self._departures.get(uid)
        if departure is None:
            departure = self._departures[uid] = Departure(self._deletion, body)
        return await departure.step(body)

    async def gone(self, body: Mapping[str, Any]) -> None:
        """This resource is no more: stop keeping it.

        One that went before anybody had looked at it has left nothing: to ask the database for it now would make it the
        newest of its name, and a namesake that was made since would count as one that was replaced.
        """
        was_kept = await self._let_go_of(body)
        departure = self._departures.pop(body["metadata"]["uid"], None)
        if departure is not None:
            await departure.stop()
        if was_kept or departure is not None:
            await self._deletion.gone(body)
            if key_of(body) not in self._keepers:
                self._keeping.meter.forget(key_of(body))

    async def _let_go_of(self, body: Mapping[str, Any]) -> bool:
        """Whether it was kept. A namesake that was made since is another one, and stays."""
        key = key_of(body)
        keeper = self._keepers.get(key)
        if keeper is None or keeper.uid != body["metadata"]["uid"]:
            return False
        await self._let_go(key)
        return True

    async def _let_go(self, key: AgentKey) -> None:
        if keeper := self._keepers.pop(key, None):
            await keeper.stop()
            self._keeping.meter.forget(key)

    async def rest(self) -> None:
        """Stop keeping all of them until each is looked at again: another replica is active, and need not wait."""
        keys = list(self._keepers)
        if keys:
            log.info("another replica is active: %s agents are let go of", len(keys))
        await self._let_go_of_all()

    async def close(self) -> None:
        """Stop keeping all of them, for good; leases are released, runs give back what called for them."""
        self._closed = True
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        await self._let_go_of_all()

    async def _let_go_of_all(self) -> None:
        departures, self._departures = self._departures, {}
        kept = (self._let_go(key) for key in list(self._keepers))
        await asyncio.gather(*kept, *(departure.stop() for departure in departures.values()))
        if not self._keepers:
            self._keeping.meter.rest()


def key_of(body: Mapping[str, Any]) -> AgentKey:
    """The name of a resource."""
    return AgentKey(body["metadata"]["namespace"], body["metadata"]["name"])
