"""Demand from an instant query of Prometheus: one number, the proofs that wait; above 0, demand is active."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx

from fleetagent.adapters.demand.answer import Answer, ask
from fleetagent.domain.demand import MOST_PROOFS, Demand, stale
from fleetagent.domain.text import neutral
from fleetagent.errors import BadResource, TryLater

QUERY = "spec.demand.prometheus.query"
URL = "spec.demand.prometheus.url"
REFUSED = frozenset({"bad_data", "execution"})
"""Error types that say something of the query; all others say something of the server."""


class PrometheusSource:
    """Asks one query each time. Implements `ports.DemandSource`.

    The query must give one number: a scalar, or a vector of one series. What gives none, several or NaN is unknown.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        query: str,
        *,
        now: Callable[[], datetime],
        timeout_seconds: float = 10.0,
    ) -> None:
        self._http = http
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._query = query
        self._timeout_seconds = timeout_seconds
        self._now = now

    async def demand(self) -> Demand:
        """The demand now. `TryLater` when Prometheus fails; `BadResource` when the query does not give one number."""
        # The server gives up before we do, so that its own words are heard.
        parameters = {"query": self._query, "timeout": f"{max(int(self._timeout_seconds) - 2, 1)}s"}
        answer = await ask(self._http, self._url, timeout_seconds=self._timeout_seconds, parameters=parameters)
        said_at, proofs = _sample_in(_data_in(answer))
        if because := stale(said_at, self._now()):
            raise BadResource("DemandKnown", "DemandStale", f"{URL}: the sample is {because}")
        return Demand(active=proofs > 0, queued=math.ceil(proofs))


def _data_in(answer: Answer) -> dict[str, Any]:
    """The `data` of a success; errors come by body, with a status of 4xx or 5xx."""
    if not answer.is_ok:
        _raise_refusal(answer)
        raise TryLater(f"Prometheus answered {answer.status}, not 200")
    body = answer.json()
    if not isinstance(body, dict) or body.get("status") != "success" or not isinstance(body.get("data"), dict):
        _raise_refusal(answer)
        raise TryLater("this does not answer as Prometheus does: the URL must be the base of one, before /api/v1")
    if warnings := body.get("warnings"):
        first = warnings[0] if isinstance(warnings, list) else warnings
        raise TryLater(f"Prometheus says that its answer may lack something: {neutral(str(first), 200)}")
    data: dict[str, Any] = body["data"]
    return data


def _raise_refusal(answer: Answer) -> None:
    """Raise what a body of `status: error` says; return where there is no such body."""
    try:
        body = answer.json()
    except TryLater:
        return
    if not isinstance(body, dict) or body.get("status") != "error":
        return
    words = neutral(str(body.get("error") or body.get("errorType") or "no reason given"), 200)
    if str(body.get("errorType")) in REFUSED:
        raise BadResource("DemandKnown", "QueryRefused", f"{QUERY}: Prometheus refuses it: {words}; correct it")
    raise TryLater(f"Prometheus answered {answer.status}: {words}")


def _sample_in(data: dict[str, Any]) -> tuple[datetime, float]:
    """The one sample: when, and how many proofs."""
    kind, result = data.get("resultType"), data.get("result")
    if str(kind) not in {"vector", "scalar"} or not isinstance(result, list):
        shape = neutral(str(kind), 20)
        raise BadResource("DemandKnown", "QueryUnusable", f"{QUERY}: gives a {shape}, not a number; let it give one")
    if kind == "scalar":
        return _point(result)
    if not result:
        because = "gives no series now: its metric is not there, or has not been scraped; `… or vector(0)` if that is 0"
        raise BadResource("DemandKnown", "NoSample", f"{QUERY}: {because}")
    if len(result) > 1:
        because = f"gives {len(result)} series, not one number: put it into sum(), or max() if each says the same"
        raise BadResource("DemandKnown", "QueryUnusable", f"{QUERY}: {because}")
    series = result[0]
    if isinstance(series, dict) and "histogram" in series:
        raise BadResource("DemandKnown", "QueryUnusable", f"{QUERY}: gives a histogram, not a number; count in it")
    return _point(series.get("value") if isinstance(series, dict) else None)


def _point(pair: Any) -> tuple[datetime, float]:
    """`[1764504000.123, "12"]`: the number comes as text, so that it can be NaN or Inf."""
    try:
        seconds, text = pair
        said_at = datetime.fromtimestamp(float(seconds), UTC)
        proofs = float(text if isinstance(text, str) else "no text")
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise TryLater("Prometheus answered with a sample that has no time or no number") from error
    if not math.isfinite(proofs) or not 0 <= proofs <= MOST_PROOFS:
        because = f"gives {neutral(str(text), 20)}, which is no number of proofs: let it give one from 0 on"
        raise BadResource("DemandKnown", "QueryUnusable", f"{QUERY}: {because}")
    return said_at, proofs
