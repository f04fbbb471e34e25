"""What an action wished, and what became of its waiting, to and from our words."""

from dataclasses import asdict, fields
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from fleetagent.adapters.postgres.tables import actions
from fleetagent.domain.approval import Decided, Wish, asked_for, expired, refused, rejected
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Offer, Waiting
from fleetagent.domain.records import ActionState

_FIELDS = frozenset(f.name for f in fields(Offer))

WAITS = actions.c.state == ActionState.WAITING

OPEN_OR_UNTOLD = sa.and_(actions.c.expires_at.is_not(None), actions.c.told_by_run.is_(None))
"""What waits, and what waited and the agent was not told yet; an index finds them."""


def wish_json(wish: Wish | None) -> dict[str, Any] | None:
    """For the column `wish`; price and label have columns of their own."""
    if wish is None:
        return None
    offer = asdict(wish.offer) if wish.offer is not None else None
    if offer is not None:
        offer["usd_per_hour"] = str(offer["usd_per_hour"])
    return {"what": wish.what, "proofs_per_hour": wish.proofs_per_hour, "offer": offer}


def waiting_of(row: sa.Row[Any]) -> Waiting:
    """A row of `actions` that waits, or waited."""
    return Waiting(
        action_id=row.id,
        kind=row.kind,
        run_id=row.run_id,
        by=row.by,
        intent_key=row.intent_key,
        reason=str(row.args.get("reason", "")),
        what=row.wish["what"],
        usd_per_hour=row.usd_per_hour,
        proofs_per_hour=row.wish["proofs_per_hour"],
        expires_at=row.expires_at,
        offer=_offer_in(row.wish["offer"]),
        label=row.label if row.kind == "stop" else None,
        approved=row.approved_at is not None,
    )


def _offer_in(stored: dict[str, Any] | None) -> Offer | None:
    if stored is None:
        return None
    known = {name: value for name, value in stored.items() if name in _FIELDS}
    return Offer(**{**known, "usd_per_hour": Decimal(known["usd_per_hour"])})


def decided_of(row: sa.Row[Any]) -> Decided:
    """What became of a row of `actions` that waited."""
    waited = waiting_of(row)
    name = f"{waited.name} ({asked_for(waited)})"
    match ActionState(row.state):
        case ActionState.REJECTED:
            words = rejected(name)
        case ActionState.EXPIRED:
            words = expired(name, approved=waited.approved)
        case ActionState.REFUSED:
            words = refused(name, Refusal(row.refusal["code"], row.refusal["sentence"]))
        case ActionState.DONE:
            words = f"{name} was approved and done: {row.provider_ref}"
        case ActionState.FAILED:
            words = f"{name} was approved, and failed"
        case _:
            words = f"{name} was approved; not clear yet whether it happened"
    return Decided(waited.action_id, words)
