"""The web page. agents and overview first; past: runs, conversation, fleet, spend. `routes` is all of it."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount

from fleetagent.entrypoints.web.page import (
    actions,
    agents,
    alerts,
    buttons,
    conversation,
    fleet,
    overview,
    runs,
    sessions,
    spend,
)
from fleetagent.entrypoints.web.page.live import Live
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import Assets, html

__all__ = ["Live", "Parts", "error_page", "login_page", "routes"]

VIEWS = (agents, overview, alerts, actions, buttons, runs, conversation, fleet, spend, sessions)


def routes(parts: Parts) -> tuple[BaseRoute, ...]:
    """Every address of the page, static files too; /login and /logout stand elsewhere."""
    return (Mount("/static", Assets()), *(route for view in VIEWS for route in view.routes(parts)))


def login_page(request: Request, *, next_path: str, failed: str | None) -> Response:
    """Where a token is asked for."""
    by_another_site = request.headers.get("sec-fetch-site") == "cross-site"
    return html("login.html", next_path=next_path, failed=failed, by_another_site=by_another_site)


def error_page(request: Request, status: int, word: str, message: str) -> Response:
    """What went wrong, in words; a line of it where htmx has asked for a part of a page."""
    if "hx-request" in request.headers:
        return html("problem.html", status_code=status, message=message)
    return html("error.html", status_code=status, status=status, word=word, message=message)
