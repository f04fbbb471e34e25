"""Signs of life: when each thing that must speak was last heard, seen by whoever carries kopf's requests.

Each is looked at by itself: timers go on with what they know while a watch is dead, and would hide it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp

from fleetagent.domain.resource import GROUP, PLURAL, VERSION

RENEWED_WITHIN_SECONDS = 5.0
"""A watch ends every few minutes and is opened anew: so long that counts as open."""
NEXT_WATCH_SECONDS = 1.0
"""A server that ends each watch at once must not be asked as fast as it answers."""

_COLLECTIONS = f"/apis/{GROUP}/{VERSION}"
_PEERINGS = ("/kopfpeerings/", "/clusterkopfpeerings/")
_NOT_SENT = ""


@dataclass(slots=True)
class Source:
    """Something that must be heard again and again."""

    name: str
    heard_at: float
    trouble: str = ""
    """Why it was not heard when it was last asked."""

    def heard(self, now: float) -> None:
        """It spoke."""
        self.heard_at, self.trouble = now, ""

    def words(self, what: str) -> str:
        """One sentence for people."""
        return f"{self.name} {what}" + (f" (at last: {self.trouble})" if self.trouble else "")


@dataclass(slots=True)
class Watch(Source):
    """The stream of one namespace's FleetAgents, or of all; kopf opens it when it has listed them."""

    asked_at: float = 0.0
    streamed_at: float = 0.0
    opened: aiohttp.ClientResponse | None = None
    refused: set[str] = field(default_factory=set)
    """Which of its resources could not be patched: kopf gives up after minutes, and forgets why it wanted to."""

    def is_open(self, now: float) -> bool:
        """Whether changes reach us, or will in a moment."""
        if self.trouble or self.opened is None:
            return False
        renews = self.asked_at > self.heard_at and now - self.asked_at < RENEWED_WITHIN_SECONDS
        return renews or not self.opened.closed


@dataclass(slots=True)
class Signs:
    """What was heard of the API server, of FleetAgents' beats and of our own tasks."""

    namespaces: Sequence[str]
    silent_seconds: float
    """Longer than any of them is silent while all is well, several times over."""
    lifetime_seconds: float | None = None
    """For how long other replicas believe that we are there; None: there are no others."""
    stands_by: Callable[[], bool] = lambda: False
    """Another replica goes first: then nothing is watched, and nothing beats."""
    clock: Callable[[], float] = time.monotonic
    _begun: bool = field(init=False, default=False)
    _watches: dict[str, Watch] = field(init=False)
    _keep_alives: dict[str, Source] = field(init=False, default_factory=dict)
    _beats: Source = field(init=False)
    _known: set[str] = field(init=False, default_factory=set)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Nothing is heard yet, and before `begin` nothing need be."""
        now = self.clock()
        self._beats = Source("the beat of FleetAgents", now)
        paths = {f"{_COLLECTIONS}/namespaces/{name}/{PLURAL}": f"of namespace {name}" for name in self.namespaces}
        every = {f"{_COLLECTIONS}/{PLURAL}": "of all namespaces"}
        self._watches = {path: Watch(f"the watch {what}", now) for path, what in (paths or every).items()}
        if self.lifetime_seconds is not None:
            self._keep_alives = {_NOT_SENT: Source("the keep-alive of the peering", now, "it was not sent yet")}

    def leave_out(self, refused: Sequence[str]) -> None:
        """These namespaces cannot be watched for now."""
        for name in refused:
            del self._watches[f"{_COLLECTIONS}/namespaces/{name}/{PLURAL}"]
        self.namespaces = tuple(name for name in self.namespaces if name not in refused)

    def begin(self) -> None:
        """From now on silence counts: before, the process may wait for its database as long as that is away."""
        self._begun = True
        for source in (*self._watches.values(), *self._keep_alives.values(), self._beats):
            source.heard_at = self.clock()

    def rely_on(self, task: asyncio.Task[None]) -> None:
        """A task of ours that must not end before the process."""
        self._tasks.append(task)

    def beat(self) -> None:
        """A resource was looked at."""
        self._beats.heard(self.clock())

    def event(self, uid: str, *, beats: bool) -> None:
        """What the watch says of a resource; one that is gone or is being deleted has no beat."""
        if not self._known:
            self._beats.heard(self.clock())  # silence begins with the first resource
        (self._known.add if beats else self._known.discard)(uid)

    async def notice(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Middleware of aiohttp's, around each request of kopf's."""
        path = request.url.path
        if watch := self._watches.get(path[max(path.find(_COLLECTIONS), 0) :]):
            return await self._watched(watch, request, handler)
        if request.method == "PATCH" and (watch := self._watch_of_one(path)):
            return await self._patched(watch, request, handler)
        if request.method == "PATCH" and any(part in path for part in _PEERINGS):
            first = self._keep_alives.pop(_NOT_SENT, None)
            source = self._keep_alives.setdefault(path, first or Source(f"the keep-alive in {path}", self.clock()))
            return await self._answer(source, request, handler)
        return await handler(request)

    async def _watched(
        self, watch: Watch, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        watch.asked_at = self.clock()
        streams = request.url.query.get("watch") == "true"
        if streams and watch.opened is not None:
            await asyncio.sleep(watch.streamed_at + NEXT_WATCH_SECONDS - self.clock())
        if streams and watch.refused:
            # Without it the server begins with every resource there is, and kopf does what it had to give up.
            request.url = request.url.without_query_params("resourceVersion")
        response = await self._answer(watch, request, handler)
        if streams and response.ok:
            watch.opened, watch.streamed_at = response, self.clock()
            watch.refused.clear()
        return response

    def _watch_of_one(self, path: str) -> Watch | None:
        """That by which we hear of the resource with this path."""
        collection = path[max(path.find(_COLLECTIONS), 0) :].partition(f"/{PLURAL}/")[0] + f"/{PLURAL}"
        every = f"{_COLLECTIONS}/{PLURAL}" if _COLLECTIONS in path else ""
        return self._watches.get(collection) or self._watches.get(every)

    async def _patched(
        self, watch: Watch, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        watch.refused.add(request.url.path)
        response = await handler(request)
        if response.ok or response.status == HTTPStatus.NOT_FOUND:
            watch.refused.discard(request.url.path)
        return response

    async def _answer(
        self, source: Source, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        try:
            response = await handler(request)
        except (TimeoutError, asyncio.CancelledError):
            source.trouble = "no answer"
            raise
        except (aiohttp.ClientError, OSError) as error:
            source.trouble = str(error) or type(error).__name__
            raise
        if response.ok:
            source.heard(self.clock())
        else:
            source.trouble = f"{response.status} {response.reason}"
        return response

    def silence(self) -> list[str]:
        """What was not heard for too long: a process that is deaf for one of these must be replaced."""
        if not self._begun:
            return []
        now = self.clock()
        sources = [*self._keep_alives.values(), *self._at_work(now)]
        ended = [f"the task {task.get_name()} has ended" for task in self._tasks if task.done()]
        silent = [source for source in sources if now - source.heard_at > self.silent_seconds]
        return ended + [source.words(f"was not heard for {now - source.heard_at:.0f} s") for source in silent]

    def _at_work(self, now: float) -> list[Source]:
        """What must be heard while no other replica goes first."""
        if self.stands_by():
            self._known.clear()
            for watch in self._watches.values():
                watch.heard(now)  # silence begins when our turn comes
            return []
        return [*self._watches.values(), *([self._beats] if self._known else [])]

    def missing(self) -> list[str]:
        """What is not there yet, or not at the moment; a replica that stands by needs its peering alone."""
        now = self.clock()
        lost = [
            source.words("is not answered")
            for source in self._keep_alives.values()
            if source.trouble or now - source.heard_at > 2 * (self.lifetime_seconds or 0)
        ]
        if self.stands_by():
            return lost
        return lost + [watch.words("is not open") for watch in self._watches.values() if not watch.is_open(now)]
