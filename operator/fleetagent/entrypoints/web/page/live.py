"""What tells open pages that something has changed: one look at the database for all of them together."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from starlette.responses import Response, StreamingResponse

from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.web.page.recent import Recent
from fleetagent.entrypoints.web.visitor import Visitor
from fleetagent.errors import NotAllowed, NotSignedIn, TooOften, TryLater
from fleetagent.ports.reading import Reading

log = logging.getLogger(__name__)

EVERY_SECONDS = 2.0
SETTLES_SECONDS = 0.8
"""The status is written right after the database: who looks at once would see the old one."""
RIGHTS_SECONDS = 60.0
"""How often it is asked again whether a watcher may."""
SILENCE_SECONDS = 20.0
"""After so long something is sent, so that proxies and we see who is still there."""
MOST_WATCHERS = 500
MOST_OF_ONE = 40

CHANGED = "event: changed\ndata: 1\n\n"
STILL_HERE = ": still here\n\n"
BEGUN = "retry: 5000\n\n"


@dataclass(eq=False, slots=True)
class Watcher:
    """One open page: the agents that it shows."""

    keys: frozenset[AgentKey]
    called: asyncio.Event = field(default_factory=asyncio.Event)
    begun: bool = False
    """Whether what changed between its drawing and the first look has been made up for."""

    async def wait(self, seconds: float) -> bool:
        """Whether something has changed before the time is over; several changes are one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # wait_for may swallow that nobody listens any more
                await self.called.wait()
        changed = self.called.is_set()
        self.called.clear()
        return changed


class Live:
    """Looks while somebody watches, and only then. Entered while the page is served; at its exit all streams end."""

    def __init__(
        self, reading: Reading, *, every_seconds: float = EVERY_SECONDS, rights_seconds: float = RIGHTS_SECONDS
    ) -> None:
        self._reading = reading
        self._every = every_seconds
        self._rights = rights_seconds
        self._watchers: set[Watcher] = set()
        self._visitors: Counter[str] = Counter()
        self._looking: asyncio.Task[None] | None = None
        self._over = False
        self.recent = Recent()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let every stream end: a listener waits for its open answers."""
        self._over = True
        for watcher in self._watchers:
            watcher.called.set()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    async def stream(self, visitor: Visitor, keys: frozenset[AgentKey]) -> AsyncIterator[str]:
        """Server-sent events: `changed` when one of these agents has, `over` when the visitor may watch no more."""
        with self._watching(visitor.token, keys) as watcher:
            yield BEGUN
            clock = asyncio.get_running_loop().time
            ask_at = clock() + self._rights
            while not self._over:
                changed = await watcher.wait(min(SILENCE_SECONDS, max(0.0, ask_at - clock())))
                if clock() >= ask_at:
                    if (why := await _over_for(visitor, keys)) is not None:
                        yield f"event: over\ndata: {why}\n\n"
                        return
                    ask_at = clock() + self._rights
                yield CHANGED if changed and not self._over else STILL_HERE

    def answer(self, visitor: Visitor, keys: frozenset[AgentKey]) -> Response:
        """The stream as an answer. `TooOften` when too many pages watch already."""
        if len(self._watchers) >= MOST_WATCHERS or self._visitors[visitor.token] >= MOST_OF_ONE:
            raise TooOften(
                "too many pages are open that update themselves: close some, or reload by hand",
                retry_after_seconds=int(RIGHTS_SECONDS),
            )
        # Nginx would keep back what it thinks is not worth sending yet.
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self.stream(visitor, keys), media_type="text/event-stream", headers=headers)

    @contextlib.contextmanager
    def _watching(self, token: str, keys: frozenset[AgentKey]) -> Iterator[Watcher]:
        watcher = Watcher(keys)
        self._watchers.add(watcher)
        self._visitors[token] += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="what open pages wait for")
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            self._visitors[token] -= 1
            self._visitors += Counter()  # forgets those at zero

    async def _look(self) -> None:
        known: Mapping[AgentKey, str] = {}
        while self._watchers and not self._over:
            try:
                found = await self._versions()
            except TryLater as error:
                log.debug("open pages are not told of changes for now: %s", error)
            else:
                changed = {key for key in found.keys() & known.keys() if found[key] != known[key]}
                known = found
                self._begin()
                if changed:
                    await asyncio.sleep(min(SETTLES_SECONDS, self._every))
                    self._tell(changed)
            await asyncio.sleep(self._every)

    async def _versions(self) -> Mapping[AgentKey, str]:
        keys = frozenset[AgentKey]().union(*(watcher.keys for watcher in self._watchers))
        return await self._reading.versions(tuple(sorted(keys, key=str)))

    def _begin(self) -> None:
        """Who has come since the last look is called once: nobody knows what changed before this one."""
        for watcher in self._watchers:
            if not watcher.begun:
                watcher.begun = True
                watcher.called.set()

    def _tell(self, changed: set[AgentKey]) -> None:
        self.recent.there_is_news()
        for watcher in self._watchers:
            if not watcher.keys.isdisjoint(changed):
                watcher.called.set()


async def _over_for(visitor: Visitor, keys: frozenset[AgentKey]) -> str | None:
    """Why this visitor may watch no more. Whether the API server can be asked just now is another question."""
    try:
        for namespace in sorted({key.namespace for key in keys}):
            await visitor.still(namespace)
    except (NotSignedIn, NotAllowed) as error:
        return " ".join(str(error).split())
    except TryLater as error:
        log.debug("a watcher's rights could not be asked for: %s", error)
    return None
