"""Demand from a URL that answers `{"active": bool, "queued": int, "arrivalPerHour": float}`."""

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx

from fleetagent.adapters.demand.answer import Answer, ask
from fleetagent.domain.demand import FRESH_FOR, MOST_PROOFS, Demand, stale
from fleetagent.domain.text import neutral
from fleetagent.errors import BadResource, TryLater

FIELD = "spec.demand.http.url"


class HttpSource:
    """Asks one URL each time. Implements `ports.DemandSource`. No redirect is followed: it could lead inside."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        *,
        now: Callable[[], datetime],
        timeout_seconds: float = 10.0,
    ) -> None:
        self._http = http
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._now = now

    async def demand(self) -> Demand:
        """The demand now. `TryLater` when the source fails or makes no sense: unknown, not zero.

        `BadResource` when the answer says that it is an old one: a `observedAt` or an `Age` of minutes.
        """
        answer = await ask(self._http, self._url, timeout_seconds=self._timeout_seconds)
        if not answer.is_ok:
            raise TryLater(f"the demand source answered {answer.status}, not 200")
        _check_cache(answer)
        return _demand_in(answer.json(), self._now())


def _check_cache(answer: Answer) -> None:
    age = (answer.age or "").strip()
    if age.isascii() and age.isdigit() and float(age) > FRESH_FOR.total_seconds():
        because = f"a cache answered with what it has kept for {neutral(age, 12)} s: let it pass the request on"
        raise BadResource("DemandKnown", "DemandStale", f"{FIELD}: {because}")


def _demand_in(answer: Any, now: datetime) -> Demand:
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
    if (observed := answer.get("observedAt")) is not None and (because := stale(_moment(observed), now)):
        raise BadResource("DemandKnown", "DemandStale", f"{FIELD}: `observedAt` is {because}")
    return Demand(active=active, queued=queued, arrival_per_hour=None if arrival is None else float(arrival))


def _moment(observed: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(observed)
    except (TypeError, ValueError) as error:
        raise TryLater("the demand source's `observedAt` is not a moment like 2026-11-29T12:00:00Z") from error
    if moment.tzinfo is None:
        raise TryLater("the demand source's `observedAt` has no time zone: end it with Z")
    return moment


def _is_amount(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= MOST_PROOFS and math.isfinite(value)
