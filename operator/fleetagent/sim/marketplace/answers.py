"""Answers that need no market: the plain faults that every call can meet, and an account's own data."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from fleetagent.sim.marketplace.errors import Refused, bad_key
from fleetagent.sim.marketplace.faults import Switch

TIMEOUT_S = 120.0
SLOW_S = 30.0

GATEWAY_TIMEOUT = (
    "<html><head><title>504 Gateway Time-out</title></head><body><h1>504 Gateway Time-out</h1></body></html>"
)
BAD_GATEWAY = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
LOGIN_PAGE = "<!doctype html><html><head><title>Vast.ai | Console</title></head><body>Please log in</body></html>"


class LooseJSONResponse(JSONResponse):
    """JSON as the market's own server writes it: NaN and Infinity stand in it where numbers do."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, separators=(",", ":")).encode()


def refused(status: int, code: str, msg: str) -> Response:
    """The usual shape of an error."""
    return as_response(Refused(status, code, msg))


def as_response(refusal: Refused) -> Response:
    """A refusal on the wire."""
    return JSONResponse(refusal.body, refusal.status, headers=refusal.headers)


def gateway_timeout() -> Response:
    """What a proxy says that has waited long enough."""
    return HTMLResponse(GATEWAY_TIMEOUT, 504)


_INSTEAD: Mapping[str, Callable[[], Response]] = {
    "http_500": lambda: refused(500, "server_error", "Internal Server Error"),
    "http_401": lambda: refused(401, "auth_error", "Invalid user key"),
    "http_403": lambda: refused(403, "forbidden", "This key lacks the permission for this call"),
    "bad_key": lambda: as_response(bad_key()),
    "html": lambda: HTMLResponse(BAD_GATEWAY, 502),
    "html_200": lambda: HTMLResponse(LOGIN_PAGE),
    "empty_string": lambda: JSONResponse(""),
    "empty_object": lambda: JSONResponse({}),
    "truncated": lambda: Response('{"success": true, "instances": [{"id": 5030', media_type="application/json"),
    "success_false": lambda: refused(200, "error", "something went wrong"),
    "timeout": gateway_timeout,
}


def instead(switch: Switch) -> Response | None:
    """What comes instead of the real answer, before anything has happened; None when the call goes on."""
    after = switch.retry_after_seconds
    headers = {"Retry-After": str(after)} if after is not None else None
    match switch.kind:
        case "rate_429":
            return PlainTextResponse("API requests too frequent", 429, headers=headers)
        case "rate_429_json":
            body = {"success": False, "error": "rate_limit_exceeded", "msg": "API requests too frequent"}
            return JSONResponse(body | ({} if after is None else {"retry_after": after}), 429)
        case kind:
            answer = _INSTEAD.get(kind)
            return answer() if answer else None


def account(account_id: int, credit_usd: float, spent_usd: float) -> dict[str, Any]:
    """`GET /users/current/`: the money that is left stands in `credit`, not in `balance`."""
    return {
        "id": account_id,
        "username": f"renter{account_id}",
        "email": f"renter{account_id}@example.com",
        "balance": 0.0,
        "credit": credit_usd,
        "balance_threshold_enabled": False,
        "autobill_threshold": None,
        "total_spend": spent_usd,
        "ssh_key": None,
    }
