"""The way to the simulated market, on which a test changes what is said: the market itself stays as it is."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from support.manifests import Json

Send = Callable[[], Awaitable[httpx.Response]]
Edit = Callable[[httpx.Request, Send], Awaitable[httpx.Response]]

TIME_OUT = "<html><body>504 Gateway Time-out</body></html>"
CALLS = {
    ("PUT", "asks"): "create",
    ("GET", "users"): "account",
    ("POST", "bundles"): "search",
    ("DELETE", "instances"): "destroy",
}


class Border(httpx.AsyncBaseTransport):
    """Lets everything pass, but for the calls that have an edit: `border.edits["list"] = …`."""

    def __init__(self) -> None:
        self._beyond = httpx.AsyncHTTPTransport()
        self.edits: dict[str, Edit] = {}
        self.sent: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = _call(request)
        self.sent.append(call)

        async def send() -> httpx.Response:
            response = await self._beyond.handle_async_request(request)
            content = await response.aread()
            await response.aclose()
            return httpx.Response(response.status_code, content=content, request=request)

        edit = self.edits.get(call)
        return await (edit(request, send) if edit is not None else send())

    async def aclose(self) -> None:
        await self._beyond.aclose()


def _call(request: httpx.Request) -> str:
    parts = request.url.path.strip("/").split("/")
    if (request.method, parts[2]) in CALLS:
        return CALLS[request.method, parts[2]]
    if parts[1] == "v1":
        return "list"
    return "show" if parts[-1].isdigit() else parts[-1]


def instead(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Edit:
    """This answer each time; text as it is, everything else as JSON. The market never hears of the call."""

    async def edit(_: httpx.Request, __: Send) -> httpx.Response:
        text = content if isinstance(content, str) else json.dumps(content)
        return httpx.Response(status, headers=headers, content=text)

    return edit


def failing(error: type[httpx.RequestError]) -> Edit:
    """The way breaks each time, before the market hears of it."""

    async def edit(request: httpx.Request, _: Send) -> httpx.Response:
        raise error("it broke", request=request)

    return edit


def changed(change: Callable[[Json], Any]) -> Edit:
    """What the market says, with a change to it."""

    async def edit(_: httpx.Request, send: Send) -> httpx.Response:
        said = json.loads((await send()).content)
        return httpx.Response(200, content=json.dumps(change(said)))

    return edit


def rows_of(change: Callable[[list[Json]], list[Json]]) -> Callable[[Json], Json]:
    """A list that is consistent in itself, with other rows."""

    def changed_list(said: Json) -> Json:
        rows = change(said["instances"])
        return said | {"instances": rows, "instances_found": len(rows), "total_instances": len(rows)}

    return changed_list


def took_effect_and(answer: httpx.Response | type[httpx.RequestError] | str) -> Edit:
    """The machine is rented; then the market, or the way back, does this. A text is what the answer's id becomes."""

    async def edit(request: httpx.Request, send: Send) -> httpx.Response:
        told = await send()
        if isinstance(answer, str):
            return httpx.Response(
                told.status_code, content=json.dumps(json.loads(told.content) | {"new_contract": answer})
            )
        if isinstance(answer, type):
            raise answer("it broke", request=request)
        return answer

    return edit


@dataclass
class LateCreate:
    """The answer is a time-out, and the machine comes only when the test lets it."""

    send: list[Send] = field(default_factory=list)

    async def __call__(self, _: httpx.Request, send: Send) -> httpx.Response:
        self.send.append(send)
        return httpx.Response(504, content=TIME_OUT)

    async def appears(self) -> None:
        """The market gets to the order now."""
        assert (await self.send.pop()()).status_code == 200
