"""The web page. `routes` is all of it.

agents, listing    the list                        overview, plots        one agent at a glance
runs, steps        what happened                   conversation, prompt   what was said, and what the model sees
fleet, timeline    machines and hosts              spend                  what each day cost
alerts, actions    what wants a person             sessions               archived conversations; wakes
buttons            what a person says              live, recent           news for open pages, read once for all
standing, state    the head of an agent's pages    asked                  what stands behind the `?`
render, words, pretty   facts as HTML              parts                  what each view is given
"""

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
    """Where a token is asked for.

    One that a link brings is used at once only if the browser says that its owner called it up. A neighbour's site may
    be anybody's, and over plain HTTP no browser says anything: somebody could be signed in as somebody else.
    """
    by_another_site = request.headers.get("sec-fetch-site") not in {"none", "same-origin"}
    return html("login.html", next_path=next_path, failed=failed, by_another_site=by_another_site)


def error_page(request: Request, status: int, word: str, message: str) -> Response:
    """What went wrong, in words; a line of it where htmx has asked for a part of a page."""
    if "hx-request" in request.headers:
        return html("problem.html", status_code=status, message=message)
    return html("error.html", status_code=status, status=status, word=word, message=message)
