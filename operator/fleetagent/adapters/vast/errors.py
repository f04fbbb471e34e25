"""What an answer of the market means. Judged by its body: the same status stands for many things, and some lie.

| meaning | how it comes |
|---|---|
| auth | 404 `auth_error` in practice, 401, 403 with a JSON body |
| offer gone | 404 `invalid_args` or 400 whose text says `no_such_ask`, 410 `no_such_ask` |
| instance gone | 404 `no_such_instance` or `not_found` |
| too often | 429, mostly as plain text; `search_quota_exceeded` lasts until midnight UTC |
| other | HTML, 5xx, redirects, a bare `success: false`: nothing may be concluded from it |
"""

from enum import Enum, auto
from http import HTTPStatus

from fleetagent.adapters.vast.answer import Answer
from fleetagent.errors import BadResource, FleetAgentError, TryLater


class Meaning(Enum):
    """What the caller can make of an answer."""

    FINE = auto()
    AUTH = auto()
    TOO_OFTEN = auto()
    OFFER_GONE = auto()
    NO_MONEY = auto()
    REFUSED = auto()
    """The request itself was not accepted, whatever it was about."""
    INSTANCE_GONE = auto()
    OTHER = auto()


_BY_CODE = {
    "auth_error": Meaning.AUTH,
    "rate_limit_exceeded": Meaning.TOO_OFTEN,
    "search_quota_exceeded": Meaning.TOO_OFTEN,
    "no_such_ask": Meaning.OFFER_GONE,
    "insufficient_credit": Meaning.NO_MONEY,
    "spend_rate_limit": Meaning.NO_MONEY,
    "missing_billing": Meaning.NO_MONEY,
    "no_such_instance": Meaning.INSTANCE_GONE,
    "not_found": Meaning.INSTANCE_GONE,
    "invalid_args": Meaning.REFUSED,
    "invalid_price": Meaning.REFUSED,
    "invalid_request": Meaning.REFUSED,
    "invalid_token": Meaning.REFUSED,
    "label_too_long": Meaning.REFUSED,
    "no_ssh_key_for_vm": Meaning.REFUSED,
    "deprecated_endpoint": Meaning.REFUSED,
}


def meaning(answer: Answer) -> Meaning:
    """What the answer says for certain; `OTHER` when nothing is certain."""
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return Meaning.TOO_OFTEN
    if answer.status == HTTPStatus.UNAUTHORIZED or "invalid user key" in answer.message.lower():
        return Meaning.AUTH
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or HTTPStatus.MULTIPLE_CHOICES <= answer.status < 400:
        return Meaning.OTHER
    if answer.status == HTTPStatus.OK and answer.fields and not _complains(answer):
        return Meaning.FINE
    return _complaint(answer)


def outcome_of(answer: Answer) -> str:
    """What the answer means in one CamelCase word of a few, for whoever counts."""
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "ServerError"
    means = meaning(answer)
    return "Answered" if means is Meaning.FINE else means.name.title().replace("_", "")


def _complaint(answer: Answer) -> Meaning:
    if "no_such_ask" in answer.message:  # before the code, which may be a mere `invalid_args`
        return Meaning.OFFER_GONE
    if lacks_credit(answer):
        return Meaning.NO_MONEY
    if answer.status == HTTPStatus.FORBIDDEN and answer.fields:  # a firewall's HTML page says nothing about the key
        return Meaning.AUTH
    return _BY_CODE.get(answer.code, Meaning.OTHER)


def lacks_credit(answer: Answer) -> bool:
    """Whether the account's own money is what is missing, wherever the answer says so."""
    return answer.code in {"insufficient_credit", "missing_billing"} or "insufficient_credit" in answer.message


def is_quota(answer: Answer) -> bool:
    """Whether the day's searches are used up: said by a code, or in plain text."""
    return answer.status == HTTPStatus.TOO_MANY_REQUESTS and "search_quota_exceeded" in answer.said


def failure(answer: Answer) -> FleetAgentError:
    """What to raise when a call that only reads, or may be repeated, was answered so."""
    match meaning(answer):
        case Meaning.AUTH:
            return key_refused(answer)
        case Meaning.TOO_OFTEN:
            until = "; no search before 00:00 UTC" if is_quota(answer) else ""
            return TryLater(f"{answer.said}{until}", retry_after_seconds=answer.retry_after_seconds)
        case _:
            return TryLater(answer.said)


def key_refused(answer: Answer) -> BadResource:
    """The key is wrong, revoked, or lacks the scope for this call."""
    advice = "put a valid one into the Secret of spec.fleet.vast.apiKeySecretRef"
    return BadResource("FleetKnown", "MarketKeyRefused", f"the market refuses the API key: {advice}. {answer.said}")


def _complains(answer: Answer) -> bool:
    return answer.fields.get("success") is False or bool(answer.fields.get("error"))
