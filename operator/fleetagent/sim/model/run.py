"""The newest run of a conversation: what users said in it, what was called, what came back."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleetagent.sim.model.conversation import Message, json_object
from fleetagent.sim.model.directives import Wanted

NOT_DONE = re.compile(r"nothing was (?:done|executed)|none of its calls was executed", re.IGNORECASE)
"""What a result says of a call that never reached its tool: to make it again is no repetition."""


@dataclass(frozen=True, slots=True)
class Done:
    """One call of this run and its result."""

    name: str
    arguments: dict[str, Any]
    result: str

    @property
    def result_json(self) -> dict[str, Any] | None:
        """The result as an object, or None when it is none."""
        return json_object(self.result)


@dataclass(frozen=True, slots=True)
class Run:
    """What belongs to the newest run: everything after the last assistant message without calls."""

    texts: tuple[str, ...]
    """What users said."""

    done: tuple[Done, ...]

    def result_of(self, name: str) -> Done | None:
        """The newest call of this tool."""
        return next((done for done in reversed(self.done) if done.name == name), None)

    def has_made(self, wanted: Wanted) -> bool:
        """Whether this call was made; its reason may have been reworded on the way."""
        return any(
            done.name == wanted.name
            and not NOT_DONE.search(done.result)
            and all(str(done.arguments.get(k)) == str(v) for k, v in wanted.arguments.items() if k != "reason")
            for done in self.done
        )


def newest_run(messages: Sequence[Message]) -> Run:
    """Cut the newest run out of a conversation."""
    ends = [index for index, message in enumerate(messages) if message.role == "assistant" and not message.calls]
    newest = messages[ends[-1] + 1 :] if ends else messages
    results = {message.answers: message.text or "" for message in newest if message.role == "tool"}
    done = tuple(
        Done(call.name, call.parsed() or {}, results.get(call.id, "")) for message in newest for call in message.calls
    )
    return Run(tuple(message.text or "" for message in newest if message.role == "user"), done)


def plan_of(run: Run) -> dict[str, Any] | None:
    """The plan that the tool gave, or None when it gave none."""
    done = run.result_of("plan_capacity")
    planned = done.result_json if done else None
    return planned if planned is not None and ("hold" in planned or "launch" in planned) else None


def objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list, and nothing else that may be there."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
