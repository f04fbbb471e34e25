"""The verbs by which people steer, each as the merge patch that `kubectl annotate` or an edit of spec.pause would make.

API, page and plugin say the same by these. A patch that takes the place of what stands, or adds to it, names the
resourceVersion that it has seen: when the API server answers that there is a newer one, read again and make it anew.
"""

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from fleetagent.domain.approval import MOST_IDS, named_in
from fleetagent.domain.resource import Annotation, Direction, Pause, parse_duration, write_moment
from fleetagent.domain.resource.wire import Wire
from fleetagent.domain.said import ACKNOWLEDGEMENT, MOST_COMMENT_CHARS, MOST_FEEDBACK_CHARS, NAMES, not_served_yet
from fleetagent.domain.text import clean
from fleetagent.errors import BadRequest

LONGEST_PAUSE = timedelta(days=3650)

Stored = Mapping[str, Any]
"""A FleetAgent as the API server has it."""
Patch = dict[str, Any]


class Verb(Wire):
    """Something that a person says to an agent; the fields are the body of the API's POST."""

    model_config = ConfigDict(extra="forbid")

    @abstractmethod
    def patch(self, stored: Stored, now: datetime) -> Patch:
        """The merge patch that says it; `BadRequest` when what stands leaves no room for it."""


class Request(Verb):
    """Run now."""

    def patch(self, stored: Stored, now: datetime) -> Patch:  # noqa: ARG002
        """A value that is new."""
        return _annotated(Annotation.REQUESTED_AT, write_moment(now))


class Reset(Verb):
    """Archive the conversation and begin a new one."""

    def patch(self, stored: Stored, now: datetime) -> Patch:  # noqa: ARG002
        """A value that is new."""
        return _annotated(Annotation.RESET_REQUESTED_AT, write_moment(now))


class Message(Verb):
    """Say something to the agent, in the operator's name."""

    text: str
    """At most 2,000 characters."""

    @model_validator(mode="after")
    def _sayable(self) -> "Message":
        words = clean(self.text)
        if not words.strip():
            raise ValueError("text: must say something")
        if len(words) > MOST_FEEDBACK_CHARS:
            raise ValueError(f"text: has {len(words)} characters; say it in {MOST_FEEDBACK_CHARS}")
        return self

    def patch(self, stored: Stored, now: datetime) -> Patch:  # noqa: ARG002
        """The words as they are."""
        return _one_word(Annotation.MESSAGE, clean(self.text), stored)


class Acknowledge(Verb):
    """Close an alert, with a comment that the agent is told."""

    alert: str
    """alert-17, or 17."""

    comment: str = ""
    """At most 1,400 characters."""

    @model_validator(mode="before")
    @classmethod
    def _number(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and isinstance(data.get("alert"), int):
            return {**data, "alert": str(data["alert"])}
        return data

    @model_validator(mode="after")
    def _readable(self) -> "Acknowledge":
        found = ACKNOWLEDGEMENT.match(self.alert)
        if found is None or found[2] is not None:
            raise ValueError("alert: must be an alert's id, such as alert-17")
        if (length := len(clean(self.comment).strip())) > MOST_COMMENT_CHARS:
            raise ValueError(f"comment: has {length} characters; say it in {MOST_COMMENT_CHARS}")
        return self

    def patch(self, stored: Stored, now: datetime) -> Patch:  # noqa: ARG002
        """`alert-17: the comment`."""
        found = ACKNOWLEDGEMENT.match(self.alert)
        number, comment = int(found[1]) if found else 0, clean(self.comment).strip()
        words = f"alert-{number}: {comment}" if comment else f"alert-{number}"
        return _one_word(Annotation.ACKNOWLEDGE, words, stored)


class _Decision(Verb):
    """About actions that wait: said together with what stands there and may not have been heard yet."""

    name: ClassVar[Literal["approve", "reject"]]

    actions: tuple[str, ...] = Field(min_length=1, max_length=MOST_IDS)
    """[action-42, action-43]."""

    @model_validator(mode="before")
    @classmethod
    def _names(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and isinstance(data.get("actions"), list | tuple):
            ids = [str(each) if isinstance(each, int) else each for each in data["actions"]]
            return {**data, "actions": ids}
        return data

    @model_validator(mode="after")
    def _readable(self) -> "_Decision":
        for each in self.actions:
            ids, unread = named_in(each)
            if unread or len(ids) != 1:
                raise ValueError("actions: each must be an action's id, such as action-42")
        return self

    def patch(self, stored: Stored, now: datetime) -> Patch:  # noqa: ARG002
        """Added to an earlier word that may be unheard: two people who decide within a second are both heard."""
        standing, _ = named_in(not_served_yet(self.name, stored) or "")
        ids = dict.fromkeys((*standing, *(i for each in self.actions for i in named_in(each)[0])))
        if len(ids) > MOST_IDS:
            raise BadRequest(f"actions: with {len(standing)} that are not served yet, they are more than {MOST_IDS}")
        return _guarded(_annotated(NAMES[self.name], ",".join(f"action-{each}" for each in ids)), stored)


class Approve(_Decision):
    """Let actions happen that wait for a person."""

    name = "approve"


class Reject(_Decision):
    """Let actions end that wait for a person."""

    name = "reject"


class PauseFor(Verb):
    """Refuse launches (Up), stops (Down) or both, for a time or until a moment."""

    lasting: str | None = Field(None, alias="for")
    """Such as 2h; or say until."""

    until: str | None = None
    """RFC 3339, such as 2026-12-01T08:00:00Z; or say for."""

    reason: str = ""
    """Shown to people and said to the agent."""

    directions: tuple[Direction, ...] = (Direction.UP,)
    """Up, Down or both."""

    @model_validator(mode="after")
    def _one_end(self) -> "PauseFor":
        if (self.lasting is None) == (self.until is None):
            raise ValueError("for: say either for, such as 2h, or until, such as 2026-12-01T08:00:00Z")
        if self.lasting is not None:
            try:
                span = parse_duration(self.lasting)
            except ValueError as error:
                raise ValueError(f"for: {error}") from error
            if not timedelta(0) < span <= LONGEST_PAUSE:
                raise ValueError("for: must be longer than 0s and at most 3650d")
        return self

    def patch(self, stored: Stored, now: datetime) -> Patch:  # noqa: ARG002
        """The whole of spec.pause: nothing of an earlier one stays."""
        until = self.until
        if self.lasting is not None:
            until = write_moment((now + parse_duration(self.lasting)).replace(microsecond=0))
        try:
            pause = Pause.read(
                {"until": until, "reason": self.reason, "directions": tuple(dict.fromkeys(self.directions))}
            )
        except ValidationError as error:
            raise _wrong_field(error) from error
        if pause.until <= now:
            raise BadRequest("until: lies in the past; name a moment that is still to come")
        return {"spec": {"pause": {**pause.to_wire(), "reason": pause.reason or None}}}


class Resume(Verb):
    """End a pause before its time."""

    def patch(self, stored: Stored, now: datetime) -> Patch:  # noqa: ARG002
        """No spec.pause any more."""
        return {"spec": {"pause": None}}


VERBS: Mapping[str, type[Verb]] = {
    "request": Request,
    "reset": Reset,
    "message": Message,
    "acknowledge": Acknowledge,
    "approve": Approve,
    "reject": Reject,
    "pause": PauseFor,
    "resume": Resume,
}


def read_verb(name: str, body: Mapping[str, Any]) -> Verb:
    """The verb with what it says; `BadRequest` names the field that is wrong."""
    if name not in VERBS:
        raise BadRequest(f"there is no verb {clean(name, 40)!r}: use one of {', '.join(VERBS)}")
    try:
        return VERBS[name].read(body)
    except ValidationError as error:
        raise _wrong_field(error) from error


def _wrong_field(error: ValidationError) -> BadRequest:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where, said = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    return BadRequest(f"{where}: {said}" if where else said)


def _annotated(annotation: Annotation, value: str) -> Patch:
    return {"metadata": {"annotations": {annotation.value: value}}}


def _one_word(annotation: Annotation, words: str, stored: Stored) -> Patch:
    """Words that stand there already are said again with a space at their end: each value is heard once."""
    standing = (stored["metadata"].get("annotations") or {}).get(annotation.value)
    return _guarded(_annotated(annotation, f"{words} " if words == standing else words), stored)


def _guarded(change: Patch, stored: Stored) -> Patch:
    """Refused once somebody has written after what we have seen."""
    change["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
    return change
