"""The same conversation for chat templates that are stricter than the protocol: Mistral's, Gemma's, Llama 2's.

Valid wire messages in, valid wire messages out. No word is lost, and what is stored does not change for it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fleetagent.domain.conversation.calls import NO_ANSWER
from fleetagent.domain.conversation.transcript import OPENING
from fleetagent.domain.model import JsonObject

_MISSING: Final[Mapping[str, str]] = {"user": OPENING, "assistant": NO_ANSWER}
"""What is said for whose turn it was and who said nothing: at the beginning, or after results that nobody took up."""


def alternating(messages: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """User and assistant take turns, the user first; calls and their results stand in between and are no turns.

    Neighbours of one role become one message. What is added at the end changes no more than the message before it.
    """
    out: list[JsonObject] = []
    turn = "user"
    for message in messages:
        role = message["role"]
        if role in {"user", "assistant"}:
            if out and out[-1]["role"] == role:
                message = _merged(out.pop(), message)  # noqa: PLW2901  # from here on it stands for both
            elif role != turn:
                out.append({"role": turn, "content": _MISSING[turn]})
            turn = "user" if role == "assistant" and not message.get("tool_calls") else "assistant"
        out.append(message)
    return tuple(out)


def without_system(messages: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """The system text at the head of the first user message, for templates that know no system role."""
    if not messages or messages[0]["role"] != "system":
        return tuple(messages)
    spoken = {"role": "user", "content": messages[0]["content"]}
    if len(messages) > 1 and messages[1]["role"] == "user":
        return (_merged(spoken, messages[1]), *messages[2:])
    return (spoken, *messages[1:])


def _merged(first: JsonObject, second: JsonObject) -> JsonObject:
    """Two messages of one role as one; only the second can have calls, or results would stand between them."""
    texts = (first.get("content"), second.get("content"))
    return {**second, "content": "\n\n".join(text for text in texts if text)}
