"""The fleet over time, as columns that static/plot.js draws."""

from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request

from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.web.page.asked import word
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.errors import BadRequest

SPANS_HOURS = ("24", "168")
MOST_POINTS = 500


def hours_asked(request: Request) -> int:
    """How far back the plots go: a day, or a week."""
    return int(word(request, "hours", SPANS_HOURS) or SPANS_HOURS[0])


async def rates(parts: Parts, request: Request, key: AgentKey) -> dict[str, Any]:
    """Times in seconds since 1970, rates in proofs per hour, USD per hour as number: plots need no cents.

    With `since`, the same seconds, only what is newer: an open page asks for what it does not have yet.
    """
    now = parts.now()
    begin = now - timedelta(hours=hours_asked(request))
    since = max(begin, _moment(request)) if "since" in request.query_params else begin
    found = await parts.reading.samples(key, since, now, most=MOST_POINTS)
    return {
        "from": begin.timestamp(),
        "until": now.timestamp(),
        "at": [round(s.at.timestamp(), 3) for s in found],
        "measured": [round(s.proofs_per_hour, 2) for s in found],
        "projected": [round(s.projected_proofs_per_hour, 2) for s in found],
        "target": [round(s.target_proofs_per_hour, 2) for s in found],
        "usdPerHour": [float(s.usd_per_hour) for s in found],
    }


def _moment(request: Request) -> datetime:
    try:
        # A little later than the point that is there: it would come again else.
        return datetime.fromtimestamp(float(request.query_params["since"]) + 0.001, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise BadRequest("since: must be seconds since 1970, such as 1780000000") from error
