"""What a fault may build its answer from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.sim.model.conversation import ChatRequest
from fleetagent.sim.model.replies import Answer, Hang, Reply, Usage, assistant, completion


@dataclass(frozen=True, slots=True)
class Moment:
    """A request that was in order, and the reply that it would have had."""

    request: ChatRequest
    context_window: int
    reply: Reply
    usage: Usage
    retry_after_seconds: float = 1.0
    """What a fault that asks for patience asks for."""

    @property
    def calling(self) -> Reply:
        """The reply if it calls a tool, else one that calls the first tool offered."""
        if self.reply.message.get("tool_calls") or not self.request.offered:
            return self.reply
        return assistant(None, (self.request.offered[0], {}))

    def completed(self, message: Mapping[str, Any], finish_reason: str | None = "stop") -> Answer:
        """A 200 with this message."""
        reply = Reply({"role": "assistant", **message}, finish_reason)
        return Answer(200, completion(reply, model=self.request.model, usage=self.usage))

    def calling_with(self, *, finish_reason: str = "tool_calls", call_id: str | None = None) -> Answer:
        """A 200 with the calls as they are, save their id or the finish reason."""
        calls = [dict(call) if call_id is None else {**call, "id": call_id} for call in self.calls]
        return self.completed({"content": None, "tool_calls": calls}, finish_reason)

    def calling_with_arguments(self, change: Callable[[str], str | None], finish_reason: str = "tool_calls") -> Answer:
        """A 200 whose calls have other arguments."""
        calls = [
            {**call, "function": {**call["function"], "arguments": change(call["function"]["arguments"])}}
            for call in self.calls
        ]
        return self.completed({"content": None, "tool_calls": calls}, finish_reason)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls of `calling`."""
        return list(self.calling.message.get("tool_calls") or ())


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry: its name, who does it, and what it answers."""

    name: str
    server: str
    answer: Callable[[Moment], Answer | Hang]
