"""What a fault may build its answer from."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.sim.model.conversation import ChatRequest
from fleetagent.sim.model.replies import Answer, Reply, Served, Usage, assistant, completion
from fleetagent.sim.model.summary import asks_for_summary

SAMPLES: Mapping[str, Any] = {
    "string": "42",
    "number": 5,
    "integer": 5,
    "boolean": True,
    "array": ["a"],
    "object": {"a": 1},
}
"""An argument of each JSON type."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A request that was in order, and the reply that it would have had."""

    request: ChatRequest
    context_window: int
    reply: Reply
    usage: Usage
    retry_after_seconds: float = 1.0
    """What a fault that asks for patience asks for."""

    key: str = ""
    """The key that came with the request: some servers repeat it in their errors."""

    @property
    def is_for_summary(self) -> bool:
        """Whether a summary is asked for, not the next step of a run."""
        return asks_for_summary(self.request)

    @property
    def calling(self) -> Reply:
        """The reply if it calls a tool, else one that calls the first tool offered."""
        if self.reply.message.get("tool_calls") or not self.request.offered:
            return self.reply
        return assistant(None, (self.request.offered[0], {}))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls of `calling`."""
        return list(self.calling.message.get("tool_calls") or ())

    def body(self, message: Mapping[str, Any], finish_reason: str | None = "stop") -> dict[str, Any]:
        """The body of a 200 with this message."""
        reply = Reply({"role": "assistant", **message}, finish_reason)
        return completion(reply, model=self.request.model, usage=self.usage)

    @property
    def usual(self) -> dict[str, Any]:
        """The body that would have come."""
        return completion(self.reply, model=self.request.model, usage=self.usage)

    def completed(self, message: Mapping[str, Any], finish_reason: str | None = "stop") -> Answer:
        """A 200 with this message."""
        return Answer(200, self.body(message, finish_reason))

    def with_calls(self, calls: list[dict[str, Any]], finish_reason: str | None = "tool_calls") -> Answer:
        """A 200 with these calls and no words."""
        return self.completed({"content": None, "tool_calls": calls}, finish_reason)

    def with_arguments(self, change: Callable[[str], str | None], finish_reason: str = "tool_calls") -> Answer:
        """A 200 whose calls have other arguments."""
        changed = [
            {**call, "function": {**call["function"], "arguments": change(call["function"]["arguments"])}}
            for call in self.calls
        ]
        return self.with_calls(changed, finish_reason)

    def tool_with(self, *types: str) -> tuple[str, str, dict[str, Any]] | None:
        """The first offered tool that has a parameter of one of these types: its name, the parameter, fit arguments."""
        for tool in self.request.tools:
            schema = tool["function"]["parameters"]
            properties = schema.get("properties", {})
            wanted = next((name for name, prop in properties.items() if prop.get("type") in types), None)
            if wanted is not None:
                names = dict.fromkeys([wanted, *schema.get("required", ())])
                return str(tool["function"]["name"]), wanted, {name: _sample(properties[name]) for name in names}
        return None

    def with_value(self, types: tuple[str, ...], value: Any) -> Answer | None:
        """A call whose parameter of one of these types has this value; None when no tool has such a parameter."""
        found = self.tool_with(*types)
        if found is None:
            return None
        tool, parameter, arguments = found
        return self.with_calls(assistant(None, (tool, {**arguments, parameter: value})).message["tool_calls"])


def _sample(prop: Mapping[str, Any]) -> Any:
    options = prop.get("enum")
    return options[0] if options else SAMPLES.get(str(prop.get("type")), "42")


def encoded(value: Any) -> str:
    """A value as JSON inside a string, as some templates write every argument."""
    return json.dumps(value)


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry: its name, who does it, what happens, and the answer; None where it does not concern the request."""

    name: str
    server: str
    what: str
    answer: Callable[[Moment], Served | None]
