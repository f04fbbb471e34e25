"""What may stand behind the `?` of an address. A wrong or unknown parameter is refused by its name, with the remedy."""

import re
import typing
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from starlette.datastructures import QueryParams

from fleetagent.domain.records import HIGHEST_ID, ActionState, Outcome
from fleetagent.domain.resource.values import DNS_NAME_PATTERN, MOMENT_PATTERN
from fleetagent.domain.resource.wire import Wire
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import BadRequest
from fleetagent.ports.reading import Slice

MOST_ROWS = 200


def _moment(text: Any) -> Any:
    if isinstance(text, str) and not re.fullmatch(MOMENT_PATTERN, text):
        raise ValueError("must be a moment such as 2026-11-29T12:00:00Z; in an address, + is written %2B")
    return text


When = Annotated[
    AwareDatetime,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation"),
]
Id = Annotated[int, Field(ge=0, le=HIGHEST_ID)]


class Query(Wire):
    """Nothing may stand there."""

    model_config = ConfigDict(extra="forbid")


class Span(Query):
    """A span of time."""

    since: When | None = None
    """From this moment on."""
    until: When | None = None
    """Before this moment."""


class Paged(Span):
    """Some rows of many."""

    limit: int = Field(50, ge=1, le=MOST_ROWS)
    """How many items at most."""
    after: str | None = None
    """The `next` of the page before."""

    @property
    def slice(self) -> Slice:
        """For the store."""
        return Slice(limit=self.limit, after=self.after, since=self.since, until=self.until)


class OfAgents(Query):
    """Which agents."""

    namespace: Annotated[str, Field(max_length=63, pattern=DNS_NAME_PATTERN)] | None = None
    """Those of one namespace; else those of all that the caller may read."""
    deleted: bool = False
    """With those whose resource is gone; then the namespace must be named."""


class OfRuns(Paged):
    """Which runs."""

    outcome: Outcome | None = None
    """How they ended."""
    trigger: Trigger | None = None
    """What called for them."""


class OfConversation(Paged):
    """Which messages."""

    session: Id | None = None
    """Of this session; else of the current one."""
    in_prompt: bool = False
    """Only what the model sees now."""


class OfSession(Query):
    """Which session."""

    session: Id | None = None
    """This one; else the current one."""


class OfActions(Paged):
    """Which actions."""

    run: Id | None = None
    """Those that this run asked for, or took up."""
    state: tuple[ActionState, ...] = ()
    """In one of these states; may be repeated."""


class OfWakes(Paged):
    """Which wakes."""

    state: Literal["pending", "processed", "cancelled", "dropped"] | None = None
    """In this state; those that are pending come by their moment, and since and until speak of it."""


class OfAlerts(Paged):
    """Which alerts."""

    state: Literal["open", "acknowledged", "resolved"] | None = None
    """In this state."""


class OfMachines(Paged):
    """Which machines."""

    ended: bool = False
    """With those that are gone or failed."""


class OfSpend(Query):
    """Which days."""

    days: int = Field(30, ge=1, le=400)
    """Up to today (UTC), so many."""


class OfSamples(Span):
    """Which time; else the last 24 hours."""

    most: int = Field(500, ge=1, le=2000)
    """Thinned to at most so many moments."""


AnyQuery = typing.TypeVar("AnyQuery", bound=Query)


def read_query(kind: type[AnyQuery], given: QueryParams) -> AnyQuery:
    """What was asked for; `BadRequest` names the parameter that is wrong."""
    repeatable = {
        field.alias or name for name, field in kind.model_fields.items() if typing.get_origin(field.annotation) is tuple
    }
    read: dict[str, Any] = {}
    for name in given:
        values = given.getlist(name)
        if name not in repeatable and len(values) > 1:
            raise BadRequest(f"{name[:63]}: stands there {len(values)} times; say it once")
        read[name] = values if name in repeatable else values[0]
    try:
        return kind.model_validate(read)
    except ValidationError as error:
        raise _wrong(kind, error) from error


def _wrong(kind: type[Query], error: ValidationError) -> BadRequest:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name, said = str(first["loc"][0])[:63], first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = ", ".join(field.alias or name for name, field in kind.model_fields.items())
        said = f"there is no such parameter here; there {'are ' + known if known else 'is none'}"
    return BadRequest(f"{name}: {said[:1].lower()}{said[1:]}")
