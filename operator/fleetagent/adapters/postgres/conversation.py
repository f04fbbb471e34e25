"""The messages of a session: appended, never rewritten; they leave the prompt, not the audit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.fleet_rows import action_of
from fleetagent.adapters.postgres.runs import report
from fleetagent.adapters.postgres.spend import book
from fleetagent.adapters.postgres.tables import actions, agents, compactions, messages, runs, sessions
from fleetagent.domain.messages import Kind, Left, Message, ToolCall
from fleetagent.domain.records import Run, RunReport, Spent


class PostgresConversation:
    """Implements `ports.Conversation`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def in_prompt(self, session_id: int) -> tuple[Message, ...]:
        """See `ports.Conversation.in_prompt`."""
        query = (
            sa.select(messages)
            .where(messages.c.session_id == session_id, messages.c.left_prompt_because.is_(None))
            .order_by(messages.c.seq)
        )
        async with self._database.statements() as connection:
            return tuple(_message(r) for r in (await connection.execute(query)).all())

    async def append(self, run: Run, new: Sequence[Message]) -> None:
        """See `ports.Conversation.append`."""
        if not new:
            return
        async with self._database.in_session(run) as connection:
            take = (
                sa.update(sessions)
                .where(sessions.c.id == run.session_id)
                .values(last_seq=sessions.c.last_seq + len(new))
                .returning(sessions.c.last_seq)
            )
            last = await connection.scalar(take) or 0
            rows = [_row(run, m, last - len(new) + n) for n, m in enumerate(new, start=1)]
            await connection.execute(sa.insert(messages), rows)

    async def compact(
        self,
        run: Run,
        *,
        method: str,
        because: str | None,
        masked_before_run: int,
        runs_left: Sequence[int],
        leaving_seqs: Sequence[int],
        summary: str | None,
        tokens_before: int,
        tokens_after: int,
    ) -> None:
        """See `ports.Conversation.compact`."""
        async with self._database.in_session(run) as connection:
            if leaving_seqs:
                await connection.execute(
                    sa.update(messages)
                    .where(
                        messages.c.session_id == run.session_id,
                        messages.c.seq.in_(list(leaving_seqs)),
                        messages.c.left_prompt_because.is_(None),
                    )
                    .values(left_prompt_because=Left.COMPACTED)
                )
            values: dict[str, Any] = {
                "compactions": sessions.c.compactions + 1,
                "masked_before_run": sa.func.greatest(sessions.c.masked_before_run, masked_before_run),
            }
            if summary is not None:
                values["summary"] = summary
            await connection.execute(sa.update(sessions).where(sessions.c.id == run.session_id).values(**values))
            await connection.execute(
                sa.insert(compactions).values(
                    agent_id=run.agent_id,
                    session_id=run.session_id,
                    run_id=run.run_id,
                    method=method,
                    because=because,
                    runs_left=list(runs_left),
                    masked_before_run=masked_before_run,
                    tokens_before=tokens_before,
                    tokens_after=tokens_after,
                    summary=summary,
                )
            )

    async def count(self, run: Run, *, reported: int | None, estimated: int, endpoint: str, ratio: float) -> None:
        """See `ports.Conversation.count`."""
        async with self._database.in_session(run) as connection:
            await connection.execute(
                sa.update(sessions)
                .where(sessions.c.id == run.session_id)
                .values(context_tokens=reported, estimated_tokens=estimated)
            )
            await connection.execute(
                sa.update(agents)
                .where(agents.c.id == run.agent_id)
                .values(calibration=agents.c.calibration.concat({endpoint: ratio}))
            )

    async def book(self, run: Run, spent: Spent) -> None:
        """See `ports.Conversation.book`."""
        async with self._database.owned(run.lease) as connection:
            await connection.execute(
                sa.update(runs)
                .where(runs.c.agent_id == run.agent_id, runs.c.run_id == run.run_id)
                .values(
                    model_calls=runs.c.model_calls + spent.model_calls,
                    tokens_in=runs.c.tokens_in + spent.tokens_in,
                    tokens_out=runs.c.tokens_out + spent.tokens_out,
                    tokens_cached=runs.c.tokens_cached + spent.tokens_cached,
                    usd=runs.c.usd + spent.usd,
                )
            )
            tokens = spent.tokens_in + spent.tokens_out
            await book(connection, run.agent_id, run.started_at.date(), "model", spent.usd, tokens)

    async def notes(self, agent_id: int, run_ids: Sequence[int]) -> tuple[RunReport, ...]:
        """See `ports.Conversation.notes`."""
        ended = sa.select(runs).where(runs.c.agent_id == agent_id, runs.c.run_id.in_(list(run_ids)))
        done = sa.select(actions).where(actions.c.agent_id == agent_id, actions.c.run_id.in_(list(run_ids)))
        async with self._database.statements() as connection:
            reports = [report(r) for r in (await connection.execute(ended.order_by(runs.c.run_id))).all()]
            acted = [action_of(r) for r in (await connection.execute(done.order_by(actions.c.id))).all()]
        return tuple(replace(r, actions=tuple(a for a in acted if a.run_id == r.run_id)) for r in reports)


def _row(run: Run, message: Message, seq: int) -> dict[str, Any]:
    return {
        "agent_id": run.agent_id,
        "session_id": run.session_id,
        "run_id": run.run_id,
        "seq": seq,
        "kind": message.kind,
        "role": message.role,
        "content": message.content,
        "history_content": message.history_content,
        "tool_calls": [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls],
        "tool_call_id": message.tool_call_id,
        "tokens": message.tokens,
    }


def _message(row: sa.Row[Any]) -> Message:
    return Message(
        run_id=row.run_id,
        kind=Kind(row.kind),
        role=row.role,
        content=row.content,
        tool_calls=tuple(ToolCall(c["id"], c["name"], c["arguments"]) for c in row.tool_calls),
        tool_call_id=row.tool_call_id,
        history_content=row.history_content,
        tokens=row.tokens,
        seq=row.seq,
    )
