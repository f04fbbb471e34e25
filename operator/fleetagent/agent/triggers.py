"""Every agent's keeper, by name: a nudge finds it, a new resource makes it, a deletion ends it."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from fleetagent.agent.deletion import Deletion
from fleetagent.agent.keeper import Keeper, Keeping
from fleetagent.domain.records import AgentKey

log = logging.getLogger(__name__)


class Triggers:
    """What entry points call. Nothing here decides: what is due, the keeper finds out from what is persisted."""

    def __init__(self, keeping: Keeping, deletion: Deletion) -> None:
        self._keeping = keeping
        self._deletion = deletion
        self._keepers: dict[AgentKey, Keeper] = {}
        self._closed = False

    def look(self, body: Mapping[str, Any]) -> None:
        """A resource as it is now: from the beat, or because it changed. Returns at once."""
        if self._closed or body["metadata"].get("deletionTimestamp"):
            return
        key = key_of(body)
        keeper = self._keepers.get(key)
        if keeper is None:
            keeper = self._keepers[key] = Keeper(key, self._keeping)
        keeper.look(body)

    def nudge(self, key: AgentKey) -> None:
        """Something was persisted for this agent; if another process keeps it, that one finds it at its next beat."""
        if keeper := self._keepers.get(key):
            keeper.nudge()

    async def delete(self, body: Mapping[str, Any]) -> str | None:
        """The resource is being deleted. None when nothing of it is left, else what keeps it: to be called again."""
        await self.gone(body)
        return await self._deletion(body)

    async def gone(self, body: Mapping[str, Any]) -> None:
        """This resource is no more: stop keeping it. A namesake that was made since is another one, and stays."""
        key = key_of(body)
        keeper = self._keepers.get(key)
        if keeper is not None and keeper.uid == body["metadata"]["uid"]:
            await self._let_go(key)

    async def _let_go(self, key: AgentKey) -> None:
        if keeper := self._keepers.pop(key, None):
            await keeper.stop()

    async def close(self) -> None:
        """Stop keeping all of them, for good; leases are released, runs give back what called for them."""
        self._closed = True
        await asyncio.gather(*(self._let_go(key) for key in list(self._keepers)))


def key_of(body: Mapping[str, Any]) -> AgentKey:
    """The name of a resource."""
    return AgentKey(body["metadata"]["namespace"], body["metadata"]["name"])
