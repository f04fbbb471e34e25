"""The market's refusals, in the shapes in which they come over the wire.

Most bodies are `{"success": false, "error": code, "msg": text}`; a 429 is plain text, but for the daily quota. An offer
that is gone has three forms.
"""

from collections.abc import Mapping
from typing import Any


class Refused(Exception):  # noqa: N818 - the market refuses; nothing is broken here
    """The market's answer is an error: status, code, text."""

    def __init__(self, status: int, code: str, msg: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status} {code}: {msg}")
        self.status = status
        self.body: dict[str, Any] = {"success": False, "error": code, "msg": msg}
        self.headers = headers


class TooOften(Exception):  # noqa: N818
    """A 429 in plain text, with the seconds after which a call would pass."""

    def __init__(self, text: str, retry_after_s: float) -> None:
        super().__init__(text)
        self.text = text
        self.retry_after_s = retry_after_s


def bad_key() -> Refused:
    """A wrong key answers 404, as seen in practice, not the documented 401."""
    return Refused(404, "auth_error", "Invalid user key")


def invalid_args(msg: str) -> Refused:
    """An argument that the market does not take."""
    return Refused(400, "invalid_args", msg)


def invalid_request(msg: str) -> Refused:
    """A column that cannot be filtered or ordered by."""
    return Refused(400, "invalid_request", msg)


def label_too_long(longest: int) -> Refused:
    """The label limit differs between create and update."""
    return Refused(400, "label_too_long", f"label must be at most {longest} characters")


def search_quota_exceeded(reset_wall_s: float) -> Refused:
    """No more searches until midnight UTC."""
    msg = "You have reached your daily search quota"
    return Refused(429, "search_quota_exceeded", msg, {"X-RateLimit-Reset": str(int(reset_wall_s))})


def insufficient_credit() -> Refused:
    """The account is out of money."""
    return Refused(400, "insufficient_credit", "Your account lacks credit; see the billing page.")


def spend_rate_limit() -> Refused:
    """A new account may not spend faster."""
    return Refused(400, "spend_rate_limit", "Your account has reached its spend rate limit.")


def no_such_ask(ask_id: int, form: int) -> Refused:
    """The offer is gone: 404, 410 or 400 are met in practice, 409 and a 200 are feared."""
    msg = f"error 404/3603: no_such_ask Instance type by id {ask_id} is not available."
    forms = (
        Refused(404, "invalid_args", msg),
        Refused(410, "no_such_ask", f"Offer {ask_id} is no longer available"),
        Refused(400, "no_such_ask", msg),
        Refused(409, "no_such_ask", msg),
        Refused(200, "no_such_ask", msg),
    )
    return forms[form]


def no_such_instance(contract_id: int) -> Refused:
    """The instance is gone, or belongs to somebody else."""
    return Refused(404, "no_such_instance", f"Instance {contract_id} not found")


def not_found(contract_id: int) -> Refused:
    """The other word that a DELETE has for an instance that is gone."""
    return Refused(404, "not_found", f"No instance with id {contract_id}")


def deprecated_list() -> Refused:
    """The v0 listing has been retired."""
    msg = "This endpoint is deprecated. Use GET /api/v1/instances/ instead."
    return Refused(410, "deprecated_endpoint", msg)
