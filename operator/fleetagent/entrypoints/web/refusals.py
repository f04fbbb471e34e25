"""What went wrong, said to whoever asked: JSON for programs, a page for browsers. Headers that every answer carries."""

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from fleetagent.errors import (
    BadCursor,
    BadRequest,
    Conflict,
    FleetAgentError,
    NotAllowed,
    NotSignedIn,
    TooOften,
    TryLater,
)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: with it, browsers say `Origin: null` when our own forms are sent.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""An answer may say another `cache-control`; static files do."""

STATUS: dict[type[FleetAgentError], int] = {
    BadCursor: 400,
    BadRequest: 400,
    NotSignedIn: 401,
    NotAllowed: 403,
    Conflict: 409,
    TooOften: 429,
    TryLater: 503,
}
WORDS = {
    404: ("NotFound", "there is nothing here: check the address"),
    408: ("TooSlow", "the body did not arrive in time: send it again"),
    405: ("WrongMethod", "this address does not take this method: see /api/v1/openapi.json"),
    413: ("TooLarge", "the body is too large: say it in less"),
}
RETRY_AFTER_SECONDS = 5

ErrorPage = Callable[[Request, int, str, str], Response]
"""Shows status, word and sentence to a person."""


class Refusals:
    """Makes the answer for each error that is named."""

    def __init__(self, page: ErrorPage) -> None:
        self._page = page

    async def named(self, request: Request, error: Exception) -> Response:
        """The answer for an error of ours, or for what nobody serves; another error is raised again."""
        if isinstance(error, HTTPException):
            word, usual = WORDS.get(error.status_code, (HTTPStatus(error.status_code).phrase.replace(" ", ""), ""))
            said = usual if not error.detail or error.detail == HTTPStatus(error.status_code).phrase else error.detail
            return self._said(request, error.status_code, word, said or word)
        for kind in type(error).__mro__:
            if kind in STATUS:
                return self._refused(request, error, STATUS[kind], kind.__name__)
        raise error

    async def fault(self, request: Request, _: Exception) -> Response:
        """The answer for a fault of ours. The log has it; whoever asked learns nothing of it."""
        response = self._said(request, 500, "Fault", "this is a fault of the operator: its log says more")
        for name, value in HEADERS.items():
            response.headers[name] = value
        return response

    def _refused(self, request: Request, error: Exception, status: int, word: str) -> Response:
        if isinstance(error, NotSignedIn) and not _wants_json(request):
            return _to_login(request)
        response = self._said(request, status, word, str(error))
        if isinstance(error, NotSignedIn):
            response.headers["www-authenticate"] = "Bearer"
        if isinstance(error, TooOften | TryLater):
            response.headers["retry-after"] = str(int(error.retry_after_seconds or RETRY_AFTER_SECONDS))
        return response

    def _said(self, request: Request, status: int, word: str, message: str) -> Response:
        if _wants_json(request):
            return JSONResponse({"error": word, "message": message}, status)
        return self._page(request, status, word, message)


def _wants_json(request: Request) -> bool:
    """Programs do; a browser says that it takes HTML, or that htmx asks."""
    if request.scope["path"].startswith("/api/"):
        return True
    return "text/html" not in request.headers.get("accept", "") and "hx-request" not in request.headers


def _to_login(request: Request) -> Response:
    """Back to where they wanted to go, once they are signed in; what was sent is not sent again."""
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={"hx-redirect": "/login"})
    if request.method != "GET" or path == "/":
        return RedirectResponse("/login", 303)
    wanted = quote(path) + (f"?{query}" if query else "")
    return RedirectResponse(f"/login?next={quote(wanted, safe='')}", 303)
