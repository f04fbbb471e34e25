"""How an action begins: as a new row, or as the very row that waited for a person."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from fleetagent.adapters.postgres.tables import actions
from fleetagent.adapters.postgres.wishes import WAITS
from fleetagent.domain.records import ActionState, Asked, LaunchIntent, Run

NOT_WAITING = "NotWaiting"
"""An approved action was rejected, or begun, in the last moment."""

MAY_BEGIN = sa.and_(
    actions.c.state.not_in((ActionState.REJECTED, ActionState.EXPIRED, ActionState.REFUSED)),
    sa.or_(sa.not_(WAITS), actions.c.approved_at.is_not(None)),
)
"""A stop that was asked for before may be asked for again, unless it waits for a person, or was decided against."""


def asked_columns(run: Run, asked: Asked) -> dict[str, Any]:
    """What a new row says of what was asked for, whatever becomes of it."""
    return {
        "agent_id": run.agent_id,
        "run_id": run.run_id,
        "intent_key": asked.intent_key,
        "kind": asked.kind,
        "by": asked.by,
        "args": dict(asked.args),
    }


def taken_up(run_id: int, now: datetime) -> dict[str, Any]:
    """What an action that waited becomes when it begins; one that has begun before stays as it is."""
    return {
        "state": sa.case((WAITS, ActionState.INTENDED.value), else_=actions.c.state),
        "executed_by_run": sa.case((WAITS, run_id), else_=actions.c.executed_by_run),
        "created_at": sa.case((WAITS, now), else_=actions.c.created_at),  # limits by the hour count what happens then
    }


def launch_intent(run: Run, intent: LaunchIntent, now: datetime) -> Any:
    """A new action; or the one that waited for approval, if it still does."""
    begun = {"label": intent.label, "usd_per_hour": intent.usd_per_hour}
    if intent.asked.approved is not None:
        waited = (actions.c.agent_id == run.agent_id, actions.c.id == intent.asked.approved)
        begins = sa.update(actions).where(*waited, WAITS, actions.c.approved_at.is_not(None))
        return begins.values(**taken_up(run.run_id, now), **begun)
    return sa.insert(actions).values(
        **asked_columns(run, intent.asked),
        state=ActionState.INTENDED,
        created_at=now,
        **begun,
    )
