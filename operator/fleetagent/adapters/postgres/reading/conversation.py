"""Sessions, their messages and what left the prompt."""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.adapters.postgres.reading.rows import view
from fleetagent.adapters.postgres.reading.seek import Trail
from fleetagent.adapters.postgres.reading.walk import Walk, page_of
from fleetagent.adapters.postgres.tables import agents, compactions, messages, sessions
from fleetagent.domain.views import CompactionView, MessageView, Page, SessionView
from fleetagent.ports.reading import Slice

MOST_COMPACTIONS = 100

_SHOWN = messages.c.left_prompt_because.is_(None)

IN_PROMPT = (
    sa.select(sa.func.count())
    .where(messages.c.session_id == sessions.c.id, _SHOWN)
    .scalar_subquery()
    .label("messages_in_prompt")
)
SESSION = (
    sessions.c.epoch,
    sessions.c.id,
    sessions.c.started_at,
    sessions.c.ended_at,
    sessions.c.last_seq.label("messages"),
    sessions.c.compactions,
    sessions.c.summary,
    sessions.c.masked_before_run,
    sessions.c.context_tokens,
    sessions.c.estimated_tokens,
    sessions.c.next_prompt_tokens,
)
MESSAGE = (
    messages.c.seq,
    messages.c.session_id,
    messages.c.run_id,
    messages.c.at,
    messages.c.kind,
    messages.c.role,
    messages.c.content,
    messages.c.history_content,
    messages.c.tool_calls,
    messages.c.tool_call_id,
    messages.c.tokens.label("estimated_tokens"),
    messages.c.left_prompt_because,
)
COMPACTION = (
    compactions.c.id,
    compactions.c.session_id,
    compactions.c.run_id,
    compactions.c.at,
    compactions.c.method,
    compactions.c.because,
    compactions.c.runs_left,
    compactions.c.masked_before_run,
    compactions.c.tokens_before,
    compactions.c.tokens_after,
    compactions.c.summary,
)

_SESSIONS = Trail("sessions", sessions.c.agent_id, sessions.c.epoch, sessions.c.started_at)
_MESSAGES = Trail("messages", messages.c.session_id, messages.c.seq, messages.c.at)


async def sessions_page(connection: AsyncConnection, agent_id: int, which: Slice) -> Page[SessionView]:
    """See `ports.Reading.sessions`."""
    rows, after = await page_of(connection, Walk(_SESSIONS, (*SESSION, IN_PROMPT)), agent_id, which)
    return Page(items=tuple(view(SessionView, row) for row in rows), next=after)


async def session_of(connection: AsyncConnection, agent_id: int, session_id: int | None) -> SessionView | None:
    """A session of this agent and of no other one; None asks for the current one."""
    current = sa.select(agents.c.session_id).where(agents.c.id == agent_id).scalar_subquery()
    named = sessions.c.id == (current if session_id is None else session_id)
    query = sa.select(*SESSION, IN_PROMPT).where(named, sessions.c.agent_id == agent_id)
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else view(SessionView, row)


async def messages_page(
    connection: AsyncConnection, session_id: int, which: Slice, *, in_prompt: bool
) -> Page[MessageView]:
    """Of a session that is known to be the agent's."""
    walk = Walk(_MESSAGES, MESSAGE, indexed=(_SHOWN,) if in_prompt else ())
    rows, after = await page_of(connection, walk, session_id, which)
    return Page(items=tuple(view(MessageView, row) for row in rows), next=after)


async def messages_after(connection: AsyncConnection, session_id: int, seq: int, most: int) -> tuple[MessageView, ...]:
    """The next ones of a session that is known to be the agent's, oldest first."""
    query = sa.select(*MESSAGE).where(messages.c.session_id == session_id, messages.c.seq > seq)
    rows = (await connection.execute(query.order_by(messages.c.seq).limit(most))).mappings()
    return tuple(view(MessageView, row) for row in rows)


async def messages_of_run(connection: AsyncConnection, agent_id: int, run_id: int) -> tuple[MessageView, ...]:
    """All that a run said and heard, in order."""
    query = sa.select(*MESSAGE).where(messages.c.agent_id == agent_id, messages.c.run_id == run_id)
    rows = (await connection.execute(query.order_by(messages.c.session_id, messages.c.seq))).mappings()
    return tuple(view(MessageView, row) for row in rows)


async def compactions_of(
    connection: AsyncConnection, session_id: int, run_id: int | None = None
) -> tuple[CompactionView, ...]:
    """Of a session that is known to be the agent's, newest first."""
    query = sa.select(*COMPACTION).where(compactions.c.session_id == session_id)
    if run_id is not None:
        query = query.where(compactions.c.run_id == run_id)
    newest = query.order_by(compactions.c.run_id.desc(), compactions.c.id.desc()).limit(MOST_COMPACTIONS)
    return tuple(view(CompactionView, row) for row in (await connection.execute(newest)).mappings())
