"""The failures that one part names to another, sorted by what the caller can do about it.

What a part keeps to itself, such as a call that an endpoint refuses, is named where it is raised and caught.

FleetAgentError
├── TryLater        the world is not ready; the same call may work later, and nothing has happened
│   ├── FleetUnreadable   the market's list failed or was not complete: never to be read as an empty fleet
│   └── ModelLoading      the model server is up and loads its model
├── NotStorable     the database refuses a value: a fault of ours, and the same write fails again
├── Unclear         an effect may have happened; find out, never repeat it
├── Denied          the other side said no for certain; nothing has happened
├── BadResource     the FleetAgent, or what it names, is wrong; only its owner can mend it: a condition
├── BadRequest      a caller of page or API asked for what cannot be; the message says what to change
│   └── BadCursor         what should be an earlier page's `next` is none of ours
├── NotSignedIn     a caller's token is missing, or the API server does not know it any more
├── NotAllowed      the API server's RBAC refuses a caller
├── Conflict        somebody else has changed the resource in between: read it again, then say it again
├── TooOften        a caller came too often, and has to wait
├── PromptTooLong   the model server refused the request for its length
├── BadReply        the model answered with something that cannot be used
├── BadPrompt       our request is not valid and was not sent: a fault of ours, never the model's
├── ModelFailed     the model gave no usable answer, for one of the reasons above: the run ends, the next one asks again
├── ContextFull     the next request does not fit the token budget, and nothing is left to leave out
├── LeaseLost       another process owns this agent now, or the session is over; write nothing more
└── CannotStart     the process has no use without this; one line, exit code 1
"""


class FleetAgentError(Exception):
    """What all our failures have in common."""


class TryLater(FleetAgentError):  # noqa: N818  # the name is the advice
    """The world is not ready; nothing has happened and the same call may work later."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class FleetUnreadable(TryLater):
    """The market's list failed, was partial or made no sense: the fleet is unknown, never empty."""


class ModelLoading(TryLater):
    """The model server is up and loads its model, which takes a large one many minutes: no failure of the model."""


class NotStorable(FleetAgentError):  # noqa: N818
    """The database refuses a value or a row. The message holds no value: it may be secret, or long."""


class Unclear(FleetAgentError):  # noqa: N818
    """The effect may have happened: find out by label, never repeat it.

    `provider_id` is the machine that the answer named in spite of its error, if any.
    """

    def __init__(self, message: str, *, provider_id: str | None = None) -> None:
        super().__init__(message)
        self.provider_id = provider_id


class Denied(FleetAgentError):  # noqa: N818
    """A certain no: nothing has happened. `code` is a CamelCase word such as `OfferGone`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BadResource(FleetAgentError):  # noqa: N818
    """Only the resource's owner can mend this. It becomes condition `condition`=False with `reason`."""

    def __init__(self, condition: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition
        self.reason = reason


class BadRequest(FleetAgentError):  # noqa: N818
    """A caller of page or API asked for what cannot be; the message says what to change."""


class BadCursor(BadRequest):
    """What should be an earlier page's `next` is none of ours."""


class NotSignedIn(FleetAgentError):  # noqa: N818
    """A caller's token is missing, or the API server does not know it any more."""


class NotAllowed(FleetAgentError):  # noqa: N818
    """The API server's RBAC refuses a caller; the message is its own."""


class Conflict(FleetAgentError):  # noqa: N818
    """Somebody else has changed the resource in between: read it again, then say it again."""


class TooOften(FleetAgentError):  # noqa: N818
    """A caller came too often, and has to wait for so many seconds."""

    def __init__(self, message: str, *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class PromptTooLong(FleetAgentError):  # noqa: N818
    """The model server refused the prompt for its length.

    `limit_tokens` is the window that it named, `prompt_tokens` its own exact count of this prompt, if any.
    """

    def __init__(self, message: str, *, limit_tokens: int | None = None, prompt_tokens: int | None = None) -> None:
        super().__init__(message)
        self.limit_tokens = limit_tokens
        self.prompt_tokens = prompt_tokens


class BadReply(FleetAgentError):  # noqa: N818
    """The model server answered 200 with nothing that can be used, or refused a request that we hold valid."""


class BadPrompt(FleetAgentError):  # noqa: N818
    """The request breaks the rules of the wire and was not sent: a fault of ours, never the model's."""


class ModelFailed(FleetAgentError):  # noqa: N818
    """The model gave no usable answer. `reason` is a CamelCase word; the message says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ContextFull(FleetAgentError):  # noqa: N818
    """The next request does not fit the token budget, and nothing is left to leave out."""


class LeaseLost(FleetAgentError):  # noqa: N818
    """This process does not own the agent any more, or its session has ended: write nothing more."""


class CannotStart(FleetAgentError):  # noqa: N818
    """The process has no use without this: say it in one line and end with exit code 1."""
