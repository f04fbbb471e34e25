"""Demand from a URL that answers `{"active": bool, "queued": int, "arrivalPerHour": float}`."""

import asyncio
import json
import math
from http import HTTPStatus
from typing import Any

import httpx

from fleetagent.domain.demand import Demand
from fleetagent.errors import TryLater

MAX_ANSWER_BYTES = 64 * 1024
MOST = 1e12
"""Whoever counts more proofs than this counts something else."""


class HttpSource:
    """Asks one URL each time. Implements `ports.DemandSource`. No redirect is followed: it could lead inside."""

    def __init__(self, http: httpx.AsyncClient, url: str, *, timeout_seconds: float = 10.0) -> None:
        self._http = http
        self._url = url
        self._timeout_seconds = timeout_seconds

    async def demand(self) -> Demand:
        """The demand now. `TryLater` when the source fails or makes no sense: unknown, not zero."""
        return _demand_in(await self._answer())

    async def _answer(self) -> Any:
        try:
            request = self._http.build_request(
                "GET", self._url, headers={"Accept": "application/json"}, timeout=self._timeout_seconds
            )
            request.headers.pop("Cookie", None)  # the client is shared with others
            async with asyncio.timeout(self._timeout_seconds):
                response = await self._http.send(request, stream=True, follow_redirects=False)
                try:
                    return await _json_of(response)
                finally:
                    await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, TimeoutError) as error:
            # The error's text may repeat the URL, and that a password or token.
            raise TryLater(f"the demand source does not answer: {type(error).__name__}") from error


async def _json_of(response: httpx.Response) -> Any:
    if response.status_code != HTTPStatus.OK:
        raise TryLater(f"the demand source answered {response.status_code}, not 200")
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise TryLater(f"the demand source answered with more than {MAX_ANSWER_BYTES} bytes")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TryLater("the demand source answered with something else than JSON") from error


def _demand_in(answer: Any) -> Demand:
    """Strict about types: a `"false"` that counts as true would launch machines."""
    if not isinstance(answer, dict):
        raise TryLater("the demand source answered with something else than a JSON object")
    active, queued, arrival = answer.get("active"), answer.get("queued"), answer.get("arrivalPerHour")
    if not isinstance(active, bool):
        raise TryLater("the demand source's `active` is neither true nor false")
    if queued is not None and not (_is_amount(queued) and isinstance(queued, int)):
        raise TryLater("the demand source's `queued` is not a whole number of proofs")
    if arrival is not None and not _is_amount(arrival):
        raise TryLater("the demand source's `arrivalPerHour` is not a number of proofs per hour")
    return Demand(active=active, queued=queued, arrival_per_hour=None if arrival is None else float(arrival))


def _is_amount(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= MOST and math.isfinite(value)
