"""What stands at FLEETAGENT_WEB_LISTEN: /metrics, the API, the page; one door before all of it."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Router

from fleetagent.agent.clock import Now
from fleetagent.domain.allowance import Allowances
from fleetagent.entrypoints.metrics import metrics_route
from fleetagent.entrypoints.web.guard import STRANGERS_OF_A_PEER, Guard, Visitors
from fleetagent.entrypoints.web.login import Login, LoginPage
from fleetagent.entrypoints.web.place import Place
from fleetagent.entrypoints.web.refusals import ErrorPage, Refusals
from fleetagent.entrypoints.web.sessions import Session, Sessions
from fleetagent.entrypoints.web.verbs import Steering, verb_routes
from fleetagent.errors import FleetAgentError
from fleetagent.ports.callers import Callers

FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pages:
    """What the page gives: its routes, and what is shown before and beside them."""

    routes: Sequence[BaseRoute]
    login: LoginPage
    error: ErrorPage


def visitors(
    callers: Callers, *, url: str | None, now: Now, clock: Callable[[], float], without_login: str | None = None
) -> Visitors:
    """Who is let in. `without_login` is the token with which everybody on this machine then asks."""
    at_once, seconds_each = STRANGERS_OF_A_PEER
    everybody = None
    if without_login is not None:
        everybody = Session(without_login, None, secrets.token_urlsafe(32), FOR_EVER, FOR_EVER, key="")
    strangers = Allowances(at_once, seconds_each, clock)
    return Visitors(callers, Sessions(now), Place(url), strangers, everybody)


def web_app(
    visitors: Visitors,
    *,
    metrics: Callable[[], Iterable[bytes]],
    api: Sequence[BaseRoute],
    pages: Pages,
    steer: Steering,
) -> Starlette:
    """All of it; errors are answered in the form that was asked for."""
    refusals = Refusals(pages.error)
    app = Starlette(
        routes=[
            metrics_route(metrics),
            Mount("/api/v1", Router([*api, *verb_routes(steer)], redirect_slashes=False)),
            *Login(visitors, pages.login).routes(),
            *pages.routes,
        ],
        middleware=[Middleware(Guard, visitors=visitors, refusals=refusals)],
        exception_handlers={
            FleetAgentError: refusals.named,
            HTTPException: refusals.named,
            Exception: refusals.fault,
        },
    )
    app.router.redirect_slashes = False  # a redirect says http://, behind an ingress too: a token would go there
    return app
