"""What the agent costs: by UTC day, machines and model, against the budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.domain.views import SpendView
from fleetagent.entrypoints.web.page.asked import word
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import standing

SPANS: Final = ("7", "30", "90")
WIDTH, HEIGHT = 640.0, 120.0
GAP: Final = 0.2


@dataclass(frozen=True, slots=True)
class Column:
    """One day in a plot; `over`: more than the budget."""

    day: date
    amount: Decimal
    x: float
    y: float
    width: float
    height: float
    over: bool


@dataclass(frozen=True, slots=True)
class Plot:
    """Days side by side, the oldest first, and the budget as a line across."""

    columns: tuple[Column, ...]
    top: Decimal
    """What the upper edge stands for."""
    line: float | None
    """How far down the budget's line is; None without a budget."""


def routes(parts: Parts) -> list[Route]:
    """Where the spend is read."""

    async def spend(request: Request) -> Response:
        stands = await standing(parts, request)
        days = int(word(request, "days", SPANS) or "30")
        booked = await parts.reading.spend(stands.key, days)
        today = stands.now.date()
        each = every_day(booked, today, days)
        budget = None if stands.agent is None else stands.agent.spec.budget
        per_day = None if budget is None else budget.fleet_usd_per_day
        tokens = None if budget is None or budget.model_tokens_per_day is None else Decimal(budget.model_tokens_per_day)
        return html(
            "spend.html",
            standing=stands,
            tab="spend",
            booked=booked,
            today=today,
            days=days,
            spans=SPANS,
            here=f"{stands.path}/spend",
            budget=budget,
            status=None if stands.agent is None else stands.agent.status.spend,
            fleet_usd=sum((d.fleet_usd for d in booked), Decimal(0)),
            model_usd=sum((d.model_usd for d in booked), Decimal(0)),
            model_tokens=sum(d.model_tokens for d in booked),
            usd=plot([(d.day, d.fleet_usd) for d in each], per_day),
            tokens=plot([(d.day, Decimal(d.model_tokens)) for d in each], tokens),
            token_budget=tokens,
            width=WIDTH,
            height=HEIGHT,
        )

    return [Route("/agents/{namespace}/{name}/spend", spend)]


def every_day(booked: Sequence[SpendView], today: date, days: int) -> tuple[SpendView, ...]:
    """The oldest first, each day to today; nothing was booked on those that are missing."""
    known = {each.day: each for each in booked}
    nothing = {"fleet_usd": Decimal(0), "model_usd": Decimal(0), "model_tokens": 0}
    span = (today - timedelta(days=ago) for ago in range(days - 1, -1, -1))
    return tuple(known.get(day) or SpendView(day=day, **nothing) for day in span)


def plot(amounts: Sequence[tuple[date, Decimal]], budget: Decimal | None) -> Plot:
    """A column for each day; the budget's line is within the drawing."""
    top = max([amount for _, amount in amounts] + ([budget] if budget is not None else []), default=Decimal(0))
    step = WIDTH / max(len(amounts), 1)
    columns = []
    for place, (day, amount) in enumerate(amounts):
        height = round(float(amount / top) * HEIGHT, 1) if top else 0.0
        x, width = round((place + GAP / 2) * step, 1), round(step * (1 - GAP), 1)
        over = budget is not None and amount > budget
        columns.append(Column(day, amount, x, round(HEIGHT - height, 1), width, height, over))
    line = round(HEIGHT - float(budget / top) * HEIGHT, 1) if budget is not None and top else None
    return Plot(tuple(columns), top, line)
