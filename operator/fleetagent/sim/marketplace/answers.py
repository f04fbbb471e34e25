"""Answers that need no market: the plain faults that every call can meet, and an account's own data."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

TIMEOUT_S = 120.0

GATEWAY_TIMEOUT = (
    "<html><head><title>504 Gateway Time-out</title></head><body><h1>504 Gateway Time-out</h1></body></html>"
)
BAD_GATEWAY = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


def _server_error() -> Response:
    return JSONResponse({"success": False, "error": "server_error", "msg": "Internal Server Error"}, 500)


def _bad_key() -> Response:
    return JSONResponse({"success": False, "error": "auth_error", "msg": "Invalid user key"}, 401)


_INSTEAD: Mapping[str, Callable[[], Response]] = {
    "http_500": _server_error,
    "http_401": _bad_key,
    "html": lambda: HTMLResponse(BAD_GATEWAY, 502),
    "empty_string": lambda: JSONResponse(""),
    "empty_object": lambda: JSONResponse({}),
    "rate_429": lambda: PlainTextResponse("API requests too frequent", 429),
    "timeout": lambda: HTMLResponse(GATEWAY_TIMEOUT, 504),
}


async def instead(fault: str, seconds: float | None) -> Response | None:
    """What comes instead of the real answer, before anything has happened; None when the call goes on."""
    if fault == "timeout":
        await asyncio.sleep(TIMEOUT_S if seconds is None else seconds)
    answer = _INSTEAD.get(fault)
    return answer() if answer else None


def account(account_id: int, credit_usd: float) -> dict[str, Any]:
    """`GET /users/current/`: the money that is left stands in `credit`, not in `balance`."""
    return {
        "id": account_id,
        "username": f"renter{account_id}",
        "email": f"renter{account_id}@example.com",
        "balance": 0.0,
        "credit": credit_usd,
        "balance_threshold_enabled": False,
        "autobill_threshold": None,
        "total_spend": 0.0,
        "ssh_key": None,
    }
