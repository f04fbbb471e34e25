"""/: all agents that the visitor may read."""

from dataclasses import dataclass
from itertools import islice
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.domain.records import AgentKey
from fleetagent.domain.views import AgentRow
from fleetagent.entrypoints.web.page.listing import KEPT_FOR, Line, Listing
from fleetagent.entrypoints.web.page.parts import Parts
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.standing import NOT_LISTED
from fleetagent.entrypoints.web.page.state import GONE, State
from fleetagent.entrypoints.web.visitor import visitor
from fleetagent.errors import NotAllowed

ON_A_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The lines of one page of the list, and what it was asked for."""

    lines: tuple[Line, ...]
    namespaces: tuple[str, ...]
    """Those that the visitor may read."""
    namespace: str | None
    deleted: bool
    next: str | None
    total: int

    @property
    def query(self) -> str:
        """The filters that hold, to go on with."""
        return f"?namespace={quote(self.namespace or '')}&deleted={int(self.deleted)}&"


def routes(parts: Parts) -> tuple[Route, ...]:
    """The page, its lines alone, and what tells that they have changed."""
    recent = parts.live.recent
    listing = Listing(parts.reading, recent)

    async def shown(request: Request) -> Shown:
        who, query = visitor(request), request.query_params
        namespace, deleted = query.get("namespace") or None, query.get("deleted") == "1"
        if namespace is not None:
            await who.must_read(namespace)
        namespaces = await who.readable(await listing.namespaces(parts.now()))
        looked_at = namespaces if namespace is None else (namespace,)
        try:
            lines = dict(await listing.of(who, looked_at, parts.now()))
        except NotAllowed:  # who may get each, and not list them, sees what the database knows
            lines = {_key(row): _of_row(row, NOT_LISTED) for row in await parts.reading.agents(looked_at)}
        if deleted:
            rows = await parts.reading.agents(looked_at, deleted=True)
            lines = {_key(r): _of_row(r, GONE) for r in rows if r.deleted_at is not None} | lines
        ordered = sorted(lines.values(), key=lambda line: (line.key.namespace, line.key.name))
        after = tuple(query.get("after", "").partition("/")[::2])
        rest = [line for line in ordered if (line.key.namespace, line.key.name) > after]
        page = tuple(islice(rest, ON_A_PAGE))
        more = f"{page[-1].key}" if len(rest) > ON_A_PAGE else None
        return Shown(
            lines=page, namespaces=namespaces, namespace=namespace, deleted=deleted, next=more, total=len(ordered)
        )

    async def all_of_it(request: Request) -> Response:
        return html(
            "list.html", visitor=visitor(request), now=parts.now(), page=await shown(request), address=_at(request)
        )

    async def lines_alone(request: Request) -> Response:
        page, address, now = await shown(request), _at(request), parts.now()

        async def draw() -> Response:
            return html("list_lines.html", now=now, page=page, address=address)

        return await recent.of((page, address), now, KEPT_FOR, draw)

    async def events(request: Request) -> Response:
        keys = frozenset(line.key for line in (await shown(request)).lines)
        return parts.live.answer(visitor(request), keys)

    return (Route("/", all_of_it), Route("/lines", lines_alone), Route("/events", events))


def _at(request: Request) -> str:
    """The query of this page of the list, for its parts."""
    return f"?{request.url.query}" if request.url.query else ""


def _key(row: AgentRow) -> AgentKey:
    return AgentKey(row.namespace, row.name)


def _of_row(row: AgentRow, state: State) -> Line:
    return Line(
        key=_key(row),
        state=state,
        tokens_today=None if row.spend_today is None else row.spend_today.model_tokens,
        open_alerts=row.open_alerts,
        waiting=row.waiting_actions,
        next_run_at=row.next_scheduled_at if row.deleted_at is None else None,
    )
