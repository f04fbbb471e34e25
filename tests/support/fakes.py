"""What stands behind the agent's ports in unit tests: a model that says what a test wants, a quiet cluster."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from fleetagent.adapters.model.parse import reply_in
from fleetagent.adapters.model.payload import Habits, body_of
from fleetagent.domain.demand import Demand
from fleetagent.domain.model import ModelRequest, RawCall, Reply, Usage
from fleetagent.domain.resource import FleetAgent
from fleetagent.errors import BadResource, PromptTooLong
from fleetagent.ports import DemandSource, Market, Model
from fleetagent.sim.model.count import completion_tokens, prompt_tokens
from fleetagent.sim.model.parse import read
from fleetagent.sim.model.personality import PERSONALITIES
from fleetagent.sim.model.policy import decide
from fleetagent.sim.model.replies import Usage as SimUsage
from fleetagent.sim.model.replies import completion
from fleetagent.sim.model.thinking import within

VERDICT = '{"action": false, "state_changed": false}'


def says(text: str = f"Hold.\n{VERDICT}", *, cut_off: bool = False, tokens: int | None = None) -> Reply:
    """An answer without a call."""
    return Reply(text, (), cut_off=cut_off, usage=Usage(tokens), finish_reason="length" if cut_off else "stop")


def calls(*asked: str | tuple[str, Mapping[str, Any] | str], cut_off: bool = False, text: str = "") -> Reply:
    """An answer that calls tools: `calls("look")`, `calls(("act", {"n": 1}))`."""
    pairs = [(a, "{}") if isinstance(a, str) else a for a in asked]
    raw = tuple(RawCall(name, a if isinstance(a, str) else json.dumps(a)) for name, a in pairs)
    return Reply(text, raw, cut_off=cut_off, usage=Usage(), finish_reason="length" if cut_off else "tool_calls")


Line: TypeAlias = Reply | Exception | Callable[[ModelRequest], Reply]


class StrictModel:
    """Implements ports.Model: counts and refuses as the strictest servers do, says what a test scripted.

    Without a script the simulator's policy speaks. A request that a strict server would refuse fails the test.
    """

    def __init__(self, *script: Line, window: int = 10**6, counts_more: float = 1.0) -> None:
        self.script = list(script)
        self.summaries: list[Line] = []
        self.window = window
        self.names_window = True
        self.counts_more = counts_more
        self.requests: list[ModelRequest] = []
        self.prompt_tokens: list[int] = []
        self.named_window: int | None = None
        self.offers_to_count = False
        self.asked_to_count = 0

    async def reply(self, request: ModelRequest) -> Reply:
        """The next line of the script, else the policy's."""
        body = json.loads(json.dumps(body_of(request, "strict", Habits(), request.max_output_tokens)))
        reading = read(body, PERSONALITIES["strict"])
        assert reading.violations == (), reading.violations
        assert reading.request is not None
        tokens = int(len(prompt_tokens(reading.request)) * self.counts_more)
        self.requests.append(request)
        self.prompt_tokens.append(tokens)
        if tokens + request.max_output_tokens > self.window:
            raise PromptTooLong(f"{tokens} tokens are too many", limit_tokens=self.window if self.names_window else 3)
        lines = self.script if request.may_call_tools else self.summaries
        line = lines.pop(0) if lines else None
        if isinstance(line, Exception):
            raise line
        if line is not None:
            said = line if isinstance(line, Reply) else line(request)
            return said if said.usage.prompt_tokens else _with_usage(said, tokens)
        usual = within(reading.request, decide(reading.request))
        usage = SimUsage(tokens, completion_tokens(usual.message), 0)
        reply = reply_in(completion(usual, model="strict", usage=usage))
        assert reply is not None
        return reply

    async def context_window(self) -> int | None:
        """It names none before it refuses a request."""
        return self.named_window

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Its own count, where it offers to count."""
        if not self.offers_to_count:
            return None
        body = json.loads(json.dumps(body_of(request, "strict", Habits(), request.max_output_tokens)))
        reading = read(body, PERSONALITIES["strict"])
        assert reading.request is not None, reading.violations
        self.asked_to_count += 1
        return int(len(prompt_tokens(reading.request)) * self.counts_more)

    def texts(self, nth: int = -1) -> list[str]:
        """What the messages of one request say."""
        return [str(m["content"]) for m in self.requests[nth].messages]


def _with_usage(reply: Reply, tokens: int) -> Reply:
    usage = Usage(tokens, 10, 0)
    return replace(reply, usage=usage)


@dataclass
class QuietCluster:
    """Implements ports.Cluster: remembers Events, has no Secrets."""

    events: list[tuple[str, str]] = field(default_factory=list)

    async def secret(self, namespace: str, name: str, key: str) -> str:
        return f"{namespace}/{name}/{key}"

    async def secret_map(self, namespace: str, name: str) -> Mapping[str, str]:
        del namespace, name
        return {}

    async def patch_status(self, namespace: str, name: str, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
        del namespace, name
        return status

    async def event(self, namespace: str, name: str, uid: str, *, kind: str, reason: str, message: str) -> None:
        del namespace, name, uid, kind
        self.events.append((reason, message))

    async def installation_stop(self) -> str | None:
        return None


@dataclass
class FixedDemand:
    """Implements ports.DemandSource."""

    is_active: bool = True

    async def demand(self) -> Demand:
        return Demand(active=self.is_active)


@dataclass
class FakeWorlds:
    """Implements ports.Worlds: one model, one market or none, demand that does not change."""

    a_model: Model | Exception
    a_market: Market | None = None
    forgotten: list[str] = field(default_factory=list)

    async def market(self, agent: FleetAgent) -> Market:
        del agent
        if self.a_market is None:
            raise BadResource("FleetKnown", "SecretMissing", "there is no market in this test")
        return self.a_market

    async def demand(self, agent: FleetAgent) -> DemandSource:
        del agent
        return FixedDemand()

    async def model(self, agent: FleetAgent) -> Model:
        del agent
        if isinstance(self.a_model, Exception):
            raise self.a_model
        return self.a_model

    async def instance_env(self, agent: FleetAgent) -> Mapping[str, str]:
        del agent
        return {}

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)
