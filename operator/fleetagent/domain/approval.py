"""Actions that wait for a person in mode Approve: how they are named, for how long they wait, what is said of them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Offer, Waiting
from fleetagent.domain.resource import Annotation
from fleetagent.domain.text import neutral

APPROVED_FOR = timedelta(hours=1)
"""How long an approved action waits at least for a run: who agrees in the last second has agreed."""
MOST_IDS = 100
"""As many actions as one annotation may name."""
_ID = re.compile(r"(?:action-)?([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Wish:
    """What an action asks for, as it was when it was asked for: written down though nothing happens (yet)."""

    what: str
    """The machine in a few words of ours: `1x RTX 5090`."""
    usd_per_hour: Decimal
    proofs_per_hour: float
    offer: Offer | None = None
    """As it was shown; None for a stop."""
    label: str | None = None
    """Of the machine to stop; None for a launch."""


class Verdict(StrEnum):
    """What becomes of one action that a person approves or rejects."""

    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    UNKNOWN = "unknown"
    NOT_OURS = "not this agent's"
    NEVER_WAITED = "never waited for approval"
    DONE = "already done"
    FAILED = "already tried, and failed"
    REFUSED = "already refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """To a person, for one action; `is_new` when the word changed something."""

    action_id: int
    verdict: Verdict
    is_new: bool = False

    @property
    def words(self) -> str:
        """`action-42: expired`."""
        return f"action-{self.action_id}: {self.verdict}"


@dataclass(frozen=True, slots=True)
class Decided:
    """An action that waited and waits no more; the agent was not told yet."""

    action_id: int
    words: str


def named_in(said: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The numbers of the actions that a person names, each once, and what could not be read.

    `action-42, ACTION-43 44` are three. What is read wrongly could approve what nobody meant: nothing is guessed.
    """
    ids: dict[int, None] = {}
    unread: list[str] = []
    for word in filter(None, re.split(r"[\s,;]+", said)):
        found = _ID.fullmatch(word.lower())
        if found is not None and len(ids) < MOST_IDS:
            ids[int(found[1])] = None
        elif found is None or int(found[1]) not in ids:
            unread.append(neutral(word, 40))
    return tuple(ids), tuple(unread)


def waits(action: Waiting, now: datetime) -> bool:
    """Whether a person can still decide; at the very moment of its expiry it is over."""
    return now < action.expires_at


def asked_for(action: Waiting) -> str:
    """`launch 1x RTX 5090 for 0.550 USD/h`; of strangers' text there is the GPU's name alone, made harmless."""
    return f"{action.kind} {neutral(action.what, 60)} {'for' if action.kind == 'launch' else 'at'} {_price(action)}"


def _price(action: Waiting) -> str:
    return f"{action.usd_per_hour:.3f} USD/h"


def how_to_decide(action: Waiting, namespace: str, name: str) -> str:
    """The Event's words: what waits, what it costs, until when, and what to type."""
    because = f" ({neutral(action.reason, 160)})" if action.reason else ""
    command = f"kubectl -n {namespace} annotate --overwrite fleetagent {name} {Annotation.APPROVE.value}={action.name}"
    return (
        f"{action.name}: {asked_for(action)}{because} waits until {action.expires_at:%Y-%m-%d %H:%M:%S} UTC. "
        f"To let it happen: {command} (to refuse it: {Annotation.REJECT.value}={action.name})"
    )


def told(action: Waiting) -> str:
    """What the model sees of an action that waits."""
    state = "approved, about to happen" if action.approved else f"until {action.expires_at:%H:%M} UTC"
    return f"{action.name} {asked_for(action)}, {state}"


def rejected(action: str) -> str:
    """A person's no."""
    return f"{action} was rejected by a person: do not ask for the same again"


def expired(action: str, *, approved: bool) -> str:
    """Nobody's word, or one that no run took up."""
    why = "it was approved, but no run took it up in time" if approved else "nobody approved it in time"
    return f"{action} has expired: {why}"


def refused(action: str, refusal: Refusal) -> str:
    """A person's yes that a guardrail did not let pass."""
    return f"{action} was approved, but refused ({refusal.code}): {neutral(refusal.sentence, 200)}"


def listed(answers: Iterable[Answer], unread: Iterable[str] = ()) -> str:
    """Answers to one annotation in one sentence."""
    return "; ".join([*(a.words for a in answers), *(f"{word!r}: not an action's name" for word in unread)])[:900]
