"""Overflow in any status, body and wording (B32), and refusals that only sound like one."""

from collections.abc import Iterator

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.replies import Answer, detail, nested_error

STATUSES = (400, 413, 422, 500)
WORDS = "This model's maximum context length is {} tokens. Please reduce the length of the messages."
NONSENSE_LIMIT = 3
MENTIONS = "`metadata` must be an object. See our docs for limits such as tokens per request, images and metadata."
ABOUT_ANOTHER = "`temperature` must be at most 2 when the context length is 8192 or more"


def _message(status: int, moment: Moment) -> Answer:
    return nested_error(status, WORDS.format(moment.context_window), kind="invalid_request_error", code=status)


def _detail(status: int, moment: Moment) -> Answer:
    return detail(status, WORDS.format(moment.context_window))


def _plain(status: int, moment: Moment) -> Answer:
    return Answer(status, WORDS.format(moment.context_window))


def _each() -> Iterator[Fault]:
    for status in STATUSES:
        for shape, answer in (("message", _message), ("detail", _detail), ("plain", _plain)):
            yield Fault(
                f"B32/{status}-{shape}",
                "any",
                f"overflow said with {status} as {shape}",
                lambda moment, status=status, answer=answer: answer(status, moment),  # type: ignore[misc]
            )


FAULTS = (
    *_each(),
    Fault("B32/limit-3", "any", "overflow with an absurd limit", lambda _: _limit_of_three()),
    Fault(
        "B32/shift",
        "llama.cpp",
        "context shift is disabled",
        lambda _: nested_error(500, "context shift is disabled", kind="server_error", code=500),
    ),
    Fault(
        "B32/mention",
        "any",
        "a refusal about something else, that names tokens and limits",
        lambda _: nested_error(400, MENTIONS, kind="invalid_request_error", code=400),
    ),
    Fault(
        "B32/another",
        "any",
        "a refusal about a parameter, that names the context length",
        lambda _: nested_error(400, ABOUT_ANOTHER, kind="invalid_request_error", param="temperature", code=400),
    ),
)


def _limit_of_three() -> Answer:
    return nested_error(400, WORDS.format(NONSENSE_LIMIT), kind="BadRequestError", code=400)
