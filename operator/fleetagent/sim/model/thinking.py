"""The state of one model server, and how it gets from a request in order to an answer."""

import asyncio
import hmac
from typing import NoReturn

from starlette.requests import Request

from fleetagent.sim.model.cache import PrefixCache
from fleetagent.sim.model.config import ModelConfig
from fleetagent.sim.model.conversation import ChatRequest
from fleetagent.sim.model.count import completion_tokens, cut_to
from fleetagent.sim.model.faults import Moment
from fleetagent.sim.model.policy import decide
from fleetagent.sim.model.record import Exchange, Recorder
from fleetagent.sim.model.replies import Answer, CutShort, Dropped, Hang, Reply, Served, Trickle, Usage, completion
from fleetagent.sim.model.script import Script
from fleetagent.sim.model.wire import NobodyWaitsError, wait_for

Spoilt = Dropped | CutShort | Trickle


class Model:
    """What requests and tests have in common: the record, the script, the hold."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.recorder = Recorder()
        self.script = Script()
        self.cache = PrefixCache()
        self.closing = asyncio.Event()
        self.waiting = 0
        """Requests that are being held now."""

        self._released = asyncio.Event()
        self._released.set()

    def refuses_key(self, http: Request) -> bool:
        """Whether a key is demanded and this is not it."""
        if self.config.api_key is None:
            return False
        given = http.headers.get("authorization", "")
        return not hmac.compare_digest(given.encode(), f"Bearer {self.config.api_key}".encode())

    @property
    def holding(self) -> bool:
        """Whether requests are held."""
        return not self._released.is_set()

    def hold(self) -> None:
        """Answer nobody from now on; what is being answered goes on."""
        self._released.clear()

    def release(self) -> None:
        """Answer all that were held."""
        self._released.set()

    async def answer(self, http: Request, exchange: Exchange, request: ChatRequest) -> Answer | Spoilt:
        """The answer to a request in order, after every wait that was asked for."""
        await self._while_held(http)
        await self._sleep(http, self.config.latency_seconds)
        said = await self._said(http, exchange, request)
        if isinstance(said, Hang):
            await self._hang(http)
        if isinstance(said, Answer | Dropped | CutShort | Trickle):
            return said
        return Answer(200, completion(said, model=request.model, usage=_usage(exchange, said)))

    async def _said(self, http: Request, exchange: Exchange, request: ChatRequest) -> Reply | Served:
        """A fault, else a canned answer, else the policy's."""
        usual = within(request, decide(request))
        key = http.headers.get("authorization", "").removeprefix("Bearer ")
        for armed in self.script.due_faults():
            moment = Moment(
                request, self.config.context_window, usual, _usage(exchange, usual), armed.retry_after_seconds, key
            )
            spoilt = armed.fault.answer(moment)
            if spoilt is not None:
                self.script.count_served(armed)
                exchange.fault = armed.fault.name
                return spoilt
        canned = self.script.next_canned()
        if canned is None:
            return usual
        await self._sleep(http, canned.delay_seconds)
        return usual if canned.answer is None else canned.answer

    async def _while_held(self, http: Request) -> None:
        if self.holding:
            self.waiting += 1
            try:
                await wait_for(http, self.closing, self._released.wait())
            finally:
                self.waiting -= 1

    async def _hang(self, http: Request) -> NoReturn:
        await wait_for(http, self.closing, asyncio.Event().wait())
        raise NobodyWaitsError

    async def _sleep(self, http: Request, seconds: float) -> None:
        if seconds > 0:
            await wait_for(http, self.closing, asyncio.sleep(seconds))


def within(request: ChatRequest, reply: Reply) -> Reply:
    """Cut off where the room for the answer ends, as an engine does: words in mid-word, calls altogether."""
    if request.max_tokens is None or completion_tokens(reply.message) <= request.max_tokens:
        return reply
    content = cut_to(reply.message.get("content") or "", request.max_tokens - 1)
    return Reply({"role": "assistant", "content": content}, "length")


def _usage(exchange: Exchange, reply: Reply) -> Usage:
    return Usage(exchange.prompt_tokens or 0, completion_tokens(reply.message), exchange.cached_tokens or 0)
