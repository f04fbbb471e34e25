"""POST …/do/{verb}: the buttons. They say what `kubectl annotate` would, in the visitor's name."""

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import key_of, path_of
from fleetagent.entrypoints.web.visitor import visitor

DONE: Mapping[str, str] = {
    "request": "A run is asked for. It starts as soon as no other run of this agent goes on.",
    "reset": "A reset is asked for. The conversation will be archived and a new one begins with the next run.",
    "message": "Sent. The agent reads it in its next run, which starts as soon as it may.",
    "acknowledge": "Acknowledged. The alert closes, and the agent is told.",
    "approve": "Approved. It is checked against every rule once more, and then done.",
    "reject": "Rejected. It will not happen; the agent is told in its next run.",
    "pause": "Paused. It ends by itself; runs go on meanwhile.",
    "resume": "The pause is over.",
}
LISTS = ("actions", "directions")


def routes(parts: Parts) -> tuple[Route, ...]:
    """One address for each verb."""

    async def press(request: Request) -> Response:
        key, verb = key_of(request), request.path_params["verb"]
        async with request.form(max_files=0) as form:
            said = _said(form)
        await parts.steer(visitor(request), key, verb, said)
        if "hx-request" in request.headers:
            return html("done.html", sentence=DONE[verb])
        return RedirectResponse(f"{path_of(key)}?done={verb}", 303)

    return (Route("/agents/{namespace}/{name}/do/{verb}", press, methods=["POST"]),)


def done_sentence(verb: str | None) -> str | None:
    """What to say after the redirect; nothing for what is no verb."""
    return DONE.get(verb or "")


def _said(form: FormData) -> Mapping[str, Any]:
    """The body that the API would take: lists as lists, what was left empty left out."""
    body: dict[str, Any] = {}
    for name in form:
        if name == "csrf":
            continue
        body[name] = form.getlist(name) if name in LISTS else form[name]
    return {name: value for name, value in body.items() if value != ""}
