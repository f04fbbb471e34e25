"""Templates → answers. All that they print is escaped; nothing is marked safe."""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from fleetagent.entrypoints.web.page.pretty import pretty
from fleetagent.entrypoints.web.page.words import FILTERS, shown

HERE = Path(__file__).parents[1]
STATIC = HERE / "static"
FOR_GOOD = "public, max-age=31536000, immutable"


def html(
    template: str, *, status_code: int = 200, headers: Mapping[str, str] | None = None, **facts: Any
) -> HTMLResponse:
    """The template with these facts. `now` of a `standing` is the moment that spans of time are counted from."""
    if "standing" in facts:
        facts.setdefault("now", facts["standing"].now)
        facts.setdefault("visitor", facts["standing"].visitor)
    return HTMLResponse(
        _environment().get_template(template).render(facts), status_code=status_code, headers=dict(headers or {})
    )


@cache
def _environment() -> Environment:
    """Made when the first page is asked for: an operator that nobody looks at need not hold it."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(cast("Mapping[str, Callable[..., Any]]", FILTERS))
    made.filters["pretty"] = pretty
    made.globals["asset"] = asset
    return made


@cache
def asset(name: str) -> str:
    """Where a static file is, by what it holds: browsers keep it until it is another one."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


class Assets(StaticFiles):
    """Files of the package; those that are asked for by their content stay in the browser."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Any:
        """See StaticFiles."""
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = FOR_GOOD if b"v=" in scope["query_string"] else "no-cache"
        return response
