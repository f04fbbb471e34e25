"""The messages of a session: appended, never rewritten; they leave the prompt, not the audit."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from fleetagent.adapters.postgres.database import HELD, Database, fenced
from fleetagent.adapters.postgres.fleet_rows import action_of
from fleetagent.adapters.postgres.runs import report
from fleetagent.adapters.postgres.spend import booked
from fleetagent.adapters.postgres.tables import actions, agents, compactions, messages, runs, sessions
from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.conversation.messages import Kind, Left, Message, ToolCall
from fleetagent.domain.conversation.window import Calibration
from fleetagent.domain.records import Run, RunReport, Spent

NO_CALLS = "[]"
_KINDS = {kind.value: kind for kind in Kind}

# Read before each run and hundreds of rows long: the statement is put together once, and an empty list of calls, which
# nearly every row has, is compared as text, which is faster than reading it as JSON.
_SHOWN = (
    sa.select(
        messages.c.run_id,
        messages.c.kind,
        messages.c.role,
        messages.c.content,
        sa.cast(messages.c.tool_calls, sa.Text),
        messages.c.tool_call_id,
        messages.c.history_content,
        messages.c.tokens,
        messages.c.seq,
    )
    .where(messages.c.session_id == sa.bindparam("session"), messages.c.left_prompt_because.is_(None))
    .order_by(messages.c.seq)
)

# Written with every answer of a model: one round trip each.
_COUNTED_HERE: sa.BindParameter[int | None] = sa.bindparam("reported", type_=sa.Integer)
_KEEPS_THE_LAST = sa.and_(_COUNTED_HERE.is_(None), sessions.c.context_tokens.is_not(None))
_OF_THE_EPOCH = HELD.c.epoch == sa.bindparam("its_epoch", type_=sa.BigInteger)
_COUNTED = sa.select(HELD.c.epoch).add_cte(
    sa.update(sessions)
    .where(
        sessions.c.agent_id == HELD.c.id, sessions.c.id == sa.bindparam("session", type_=sa.BigInteger), _OF_THE_EPOCH
    )
    .values(
        # The last count that there was stays, beside the estimate of that same request.
        context_tokens=sa.func.coalesce(_COUNTED_HERE, sessions.c.context_tokens),
        estimated_tokens=sa.case(
            (_KEEPS_THE_LAST, sessions.c.estimated_tokens), else_=sa.bindparam("estimated", type_=sa.Integer)
        ),
        counts=sa.bindparam("new_counts", type_=JSONB),
    )
    .cte("session_counted"),
    sa.update(agents)
    .where(agents.c.id == HELD.c.id, _OF_THE_EPOCH)
    .values(calibration=agents.c.calibration.concat(sa.bindparam("ratios", type_=JSONB)))
    .cte("ratio_learnt"),
)
_COST: Mapping[str, sa.BindParameter[Any]] = {
    name: sa.bindparam(f"more_{name}", type_=runs.c[name].type)
    for name in ("model_calls", "tokens_in", "tokens_out", "tokens_cached", "usd")
}
_BOOKED = sa.select(HELD.c.epoch).add_cte(
    sa.update(runs)
    .where(runs.c.agent_id == HELD.c.id, runs.c.run_id == sa.bindparam("run", type_=sa.BigInteger))
    .values(
        **{name: runs.c[name] + cost for name, cost in _COST.items()},
        tokens_estimated=sa.or_(runs.c.tokens_estimated, sa.bindparam("more_tokens_estimated", type_=sa.Boolean)),
    )
    .cte("run_booked"),
    booked(
        sa.select(
            HELD.c.id,
            sa.bindparam("on_day", type_=sa.Date),
            sa.literal("model"),
            _COST["usd"],
            _COST["tokens_in"] + _COST["tokens_out"],
        )
    ).cte("day_booked"),
)

_APPENDED = fenced(
    """numbered AS (
        UPDATE sessions SET last_seq = last_seq + :count FROM held
        WHERE held.epoch = :its_epoch AND sessions.agent_id = held.id AND sessions.id = :session
        RETURNING sessions.id, sessions.agent_id, last_seq
    ), appended AS (
        INSERT INTO messages (session_id, seq, agent_id, run_id, kind, role, content, history_content, tool_calls,
            tool_call_id, tokens)
        SELECT numbered.id, last_seq - :count + place, agent_id, :run, kind, role, content, history_content, tool_calls,
            tool_call_id, tokens
        FROM numbered, jsonb_to_recordset(:rows) AS new (place int, kind text, role text, content text,
            history_content text, tool_calls jsonb, tool_call_id text, tokens int)
    )
    SELECT epoch FROM held
"""
).bindparams(
    *(sa.bindparam(name, type_=sa.BigInteger) for name in ("count", "its_epoch", "session", "run")),
    sa.bindparam("rows", type_=JSONB),
)


class PostgresConversation:
    """Implements `ports.Conversation`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def in_prompt(self, session_id: int) -> tuple[Message, ...]:
        """See `ports.Conversation.in_prompt`."""
        async with self._database.statements() as connection:
            rows = (await connection.execute(_SHOWN, {"session": session_id})).all()
        return tuple(_message(*row) for row in rows)

    async def append(self, run: Run, new: Sequence[Message]) -> None:
        """See `ports.Conversation.append`."""
        if not new:
            return
        rows = [_row(message, place) for place, message in enumerate(new, start=1)]
        given = {"session": run.session_id, "run": run.run_id, "count": len(rows), "rows": rows}
        await self._database.at_once(_APPENDED, run.lease, given, epoch=run.epoch)

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
                "counts": sessions.c.counts.op("-")(sa.literal("anchors", sa.Text)),  # what they counted is gone
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

    async def count(
        self, run: Run, *, reported: int | None, estimated: int, counts: Counts, calibration: Calibration
    ) -> None:
        """See `ports.Conversation.count`."""
        ratios = {counts.endpoint: {"ratio": calibration.ratio, "tail": calibration.tail}}
        figures = {"reported": reported, "estimated": estimated, "new_counts": asdict(counts), "ratios": ratios}
        await self._database.at_once(_COUNTED, run.lease, {"session": run.session_id, **figures}, epoch=run.epoch)

    async def book(self, run: Run, spent: Spent) -> None:
        """See `ports.Conversation.book`."""
        more = {f"more_{name}": value for name, value in asdict(spent).items()}
        await self._database.at_once(_BOOKED, run.lease, {"run": run.run_id, "on_day": run.started_at.date(), **more})

    async def notes(self, agent_id: int, run_ids: Sequence[int]) -> tuple[RunReport, ...]:
        """See `ports.Conversation.notes`."""
        ended = sa.select(runs).where(runs.c.agent_id == agent_id, runs.c.run_id.in_(list(run_ids)))
        done = sa.select(actions).where(actions.c.agent_id == agent_id, actions.c.run_id.in_(list(run_ids)))
        async with self._database.statements() as connection:
            reports = [report(r) for r in (await connection.execute(ended.order_by(runs.c.run_id))).all()]
            acted = [action_of(r) for r in (await connection.execute(done.order_by(actions.c.id))).all()]
        return tuple(replace(r, actions=tuple(a for a in acted if a.run_id == r.run_id)) for r in reports)


def _row(message: Message, place: int) -> dict[str, Any]:
    return {
        "place": place,
        "kind": message.kind.value,
        "role": message.role,
        "content": message.content,
        "history_content": message.history_content,
        "tool_calls": [_call_row(c) for c in message.tool_calls],
        "tool_call_id": message.tool_call_id,
        "tokens": message.tokens,
    }


def _call(row: Mapping[str, str]) -> ToolCall:
    return ToolCall(row["id"], row["name"], row["arguments"], row.get("original"))


def _call_row(call: ToolCall) -> dict[str, str]:
    stored = {"id": call.id, "name": call.name, "arguments": call.arguments}
    return stored if call.original is None else {**stored, "original": call.original}


def _message(
    run_id: int,
    kind: str,
    role: str,
    content: str,
    calls: str,
    call_id: str | None,
    history: str | None,
    tokens: int,
    seq: int,
) -> Message:
    made = () if calls == NO_CALLS else tuple(map(_call, json.loads(calls)))
    return Message(run_id, _KINDS[kind], role, content, made, call_id, history, tokens, seq)
