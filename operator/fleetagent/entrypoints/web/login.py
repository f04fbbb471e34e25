"""Signing in with a Kubernetes token, and out."""

import logging
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fleetagent.entrypoints.guarded import peer_of
from fleetagent.entrypoints.web.guard import Visitors
from fleetagent.entrypoints.web.place import local_path
from fleetagent.entrypoints.web.refusals import STATUS
from fleetagent.entrypoints.web.visitor import bearer_token, visitor
from fleetagent.errors import NotAllowed, NotSignedIn, TooOften, TryLater

log = logging.getLogger(__name__)

LoginPage = Callable[..., Response]
"""Of a request, with `next_path` and, after a try, what `failed`."""
NO_TOKEN = "that is no token: paste one as `kubectl create token` prints it"  # noqa: S105


class Login:
    """`/login` is open to all; `/logout` is a POST of who is signed in."""

    def __init__(self, visitors: Visitors, page: LoginPage) -> None:
        self._visitors = visitors
        self._page = page

    def routes(self) -> list[Route]:
        """To be served beside the page's own."""
        return [
            Route("/login", self._show),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    async def _show(self, request: Request) -> Response:
        """To who is signed in, too: a token in the fragment is to be used, and not to stay in the address."""
        next_path = local_path(request.query_params.get("next"))
        if self._visitors.without_login is not None:
            return RedirectResponse(f"{next_path.partition('#')[0]}#", 303)  # else browsers keep the fragment
        return self._page(request, next_path=next_path, failed=None)

    async def _log_in(self, request: Request) -> Response:
        if self._visitors.without_login is not None:
            return RedirectResponse("/", 303)
        if not self._visitors.place.own(request):  # or another site could sign somebody in as somebody else
            raise NotAllowed("this was not sent by our own login page: open /login and sign in there")
        form = await request.form(max_files=0)
        next_path = local_path(_text(form.get("next")))
        try:
            token = _token(_text(form.get("token")))
            name = await self._visitors.named(request, token)
        except (NotSignedIn, TooOften, TryLater) as error:
            answer = self._page(request, next_path=next_path, failed=str(error))
            answer.status_code = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
            return answer
        return self._signed_in(request, token, name, next_path)

    def _signed_in(self, request: Request, token: str, name: str | None, next_path: str) -> Response:
        """With a cookie that is new: one that somebody has put into this browser before is worth nothing."""
        sessions = self._visitors.sessions
        if (earlier := sessions.find(self._visitors.cookie_of(request))) is not None:
            sessions.close(earlier)
        answer = RedirectResponse(next_path, 303)
        log.info("%s has signed in, from %s", name or "somebody", peer_of(request.client))
        answer.set_cookie(value=sessions.open(token, name), **self._cookie(request))
        return answer

    async def _log_out(self, request: Request) -> Response:
        session = visitor(request).session
        if session is not None:
            self._visitors.sessions.close(session)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(**self._cookie(request))
        return answer

    def _cookie(self, request: Request) -> dict[str, Any]:
        place = self._visitors.place
        flags = {"httponly": True, "samesite": "strict", "secure": place.secure(request)}
        return {"key": place.cookie(request), "path": "/", **flags}


def _token(said: str) -> str:
    try:
        return bearer_token(f"Bearer {said.strip()}")
    except NotSignedIn as error:
        raise NotSignedIn(NO_TOKEN) from error


def _text(said: object) -> str:
    return said if isinstance(said, str) else ""
