"""One exchange with the market over HTTP: paced, bounded in time and size, the key in its header and nowhere else."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import httpx

from fleetagent.adapters.vast.answer import LONGEST_TEXT, Answer, answer_in, redact
from fleetagent.adapters.vast.errors import is_quota, outcome_of
from fleetagent.adapters.vast.pacing import Endpoint, Pacer
from fleetagent.domain.model import JsonObject
from fleetagent.domain.text import neutral
from fleetagent.errors import BadResource, TryLater
from fleetagent.ports.world import MayBegin, at_once

MAX_ANSWER_BYTES = 8 * 1024 * 1024
PIECE_BYTES = 8 * 1024
"""Unpacked, a piece may be a thousand times as large: so much is in memory before anybody can look at it."""
CODINGS = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
"""Packed twice, or with what packs better, a few bytes would fill the memory."""
ATTEMPTS = 3
PAUSE_S = 0.5
SHORTEST_SECRET = 8
"""Shorter values of the environment are words like `1` or `true`: hiding them would only garble messages."""


Heard = Callable[[str, str], None]
"""Told, after each exchange, which call it was and what came of it, in a word each."""


def unheard(call: str, outcome: str) -> None:
    """Nobody counts."""


class NotSent(TryLater):
    """No connection came about: the market has not heard of the call."""


class NoAnswer(TryLater):
    """The call may have arrived, but no usable answer came back."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `secrets` are values in its body that no message may repeat."""

    method: str
    path: str
    endpoint: Endpoint
    query: Mapping[str, str] = field(default_factory=dict)
    body: JsonObject | None = field(default=None, repr=False)
    timeout_seconds: float | None = None
    """None: as long as a read may take."""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Wire:
    """Speaks to one account of the market. The shared client's cookies, redirects and credentials are not used."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        base_url: str,
        api_key: str,
        pacer: Pacer,
        timeout_seconds: float = 20.0,
        heard: Heard = unheard,
    ) -> None:
        self._http = http
        self._base_url = _checked_url(base_url)
        self._api_key = _checked_key(api_key)
        self._timeout_seconds = timeout_seconds
        self._heard = heard
        self.pacer = pacer
        self.identity = hashlib.sha256(f"{self._base_url}\n{self._api_key}".encode()).hexdigest()
        """Stands for this key at this market where things are shared, and does not give the key away."""

    def __repr__(self) -> str:
        return f"Wire({self._base_url!r})"

    @property
    def market(self) -> str:
        """Where the market is: its offers are the same for every key."""
        return self._base_url

    async def read(self, call: Call, may_begin: MayBegin = at_once) -> Answer:
        """`once`, again after a pause when the market or the way to it failed: for calls that may be repeated.

        A time-out is not tried again, as the caller would wait for too long.
        """
        for attempt in range(1, ATTEMPTS):
            try:
                answer = await self.once(call, may_begin)
            except (NotSent, NoAnswer) as error:
                if isinstance(error.__cause__, TimeoutError | httpx.TimeoutException):
                    raise
            else:
                if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR and (
                    answer.is_json or answer.status != HTTPStatus.OK
                ):
                    return answer
            await self.pacer.sleep(PAUSE_S * attempt)
        return await self.once(call, may_begin)

    async def once(self, call: Call, may_begin: MayBegin = at_once) -> Answer:
        """Ask a single time. `NotSent`: it did not leave. `NoAnswer`: it may have arrived. Any status is an answer.

        The turn may be long in coming: `may_begin` is asked after it, since what held before may hold no more.
        """
        slots = self._slots(call.endpoint)
        async with AsyncExitStack() as turns:
            for identity, endpoint in slots:
                await turns.enter_async_context(self.pacer.turn(identity, endpoint))
            await may_begin()
            answer = await self._counted(call)
            if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
                return self._close(call.endpoint, answer)
            for identity, endpoint in slots:
                self.pacer.served(identity, endpoint)
        return answer

    async def _counted(self, call: Call) -> Answer:
        try:
            answer = await self._exchange(call)
        except (NotSent, NoAnswer) as error:
            self._heard(call.endpoint, type(error).__name__)
            raise
        self._heard(call.endpoint, outcome_of(answer))
        return answer

    async def _exchange(self, call: Call) -> Answer:
        timeout_seconds = call.timeout_seconds or self._timeout_seconds
        request = self._http.build_request(
            call.method,
            f"{self._base_url}{call.path}",
            params=dict(call.query) or None,
            json=call.body,
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "gzip",
                "Authorization": f"Bearer {self._api_key}",
            },
            timeout=timeout_seconds,
        )
        request.headers.pop("Cookie", None)  # another account's answer may have left some in the shared client
        try:
            async with asyncio.timeout(timeout_seconds):  # httpx's own limit is for each read, not for the whole
                response = await self._http.send(request, stream=True, auth=None, follow_redirects=False)
                try:
                    content = await _content(response)
                finally:
                    await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol) as error:
            raise NotSent(f"{call}: no connection: {self._shown(error, call)}") from error
        except (httpx.HTTPError, httpx.StreamError, TimeoutError) as error:
            raise NoAnswer(f"{call}: no answer: {self._shown(error, call)}") from error
        if content is None:
            raise NoAnswer(f"{call}: answered {response.status_code} with more than anybody could use")
        return answer_in(response, content, asked=str(call), secrets=self._secrets(call), now=self.pacer.wall_clock())

    def _close(self, endpoint: Endpoint, answer: Answer) -> Answer:
        """Tell the pacer of a 429, and the caller how long the call is not taken."""
        if endpoint is Endpoint.SEARCH and is_quota(answer):
            wait = self.pacer.refused(self.identity, Endpoint.SEARCH_QUOTA, self.pacer.seconds_to_midnight())
        else:
            identity, endpoint = self._slots(endpoint)[0]
            wait = self.pacer.refused(identity, endpoint, answer.retry_after_seconds)
        return replace(answer, retry_after_seconds=wait)

    def _slots(self, endpoint: Endpoint) -> tuple[tuple[str, Endpoint], ...]:
        """Searches are counted for the whole address, and by the day for the account; everything else for the key."""
        if endpoint is Endpoint.SEARCH:
            return (self._base_url, Endpoint.SEARCH), (self.identity, Endpoint.SEARCH_QUOTA)
        return ((self.identity, endpoint),)

    def _shown(self, error: Exception, call: Call) -> str:
        said = neutral(redact(str(error), self._secrets(call)), LONGEST_TEXT)
        return f"{type(error).__name__} {said}".strip()

    def _secrets(self, call: Call) -> tuple[str, ...]:
        return (self._api_key, *(secret for secret in call.secrets if len(secret) >= SHORTEST_SECRET))


async def _content(response: httpx.Response) -> bytes | None:
    """The whole body, or None when it is too large to be an answer, or may be once it is unpacked."""
    if response.headers.get("Content-Encoding", "").strip().lower() not in CODINGS:
        return None
    if isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _InPieces(response.stream)
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            return None
    return bytes(content)


class _InPieces(httpx.AsyncByteStream):
    """The same bytes, few at a time: what unpacks them has no limit of its own."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            for start in range(0, len(chunk), PIECE_BYTES):
                yield chunk[start : start + PIECE_BYTES]

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._stream.aclose()


def _checked_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as error:
        raise BadResource("FleetKnown", "MarketURLInvalid", f"the market's URL cannot be read: {error}") from error
    if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.query or url.fragment:
        message = "the market's URL must be http(s)://host[:port][/path], without user, query or fragment"
        raise BadResource("FleetKnown", "MarketURLInvalid", message)
    return str(url).rstrip("/")


def _checked_key(api_key: str) -> str:
    key = api_key.strip()  # a line break at the end is the usual slip when a Secret is made from a file
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        message = "the market's API key is empty or holds characters that no key has"
        raise BadResource("FleetKnown", "MarketKeyRefused", message)
    return key
