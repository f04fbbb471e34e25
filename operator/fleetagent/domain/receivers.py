"""Who gets an agent's alerts: the lines of its Secret, and how it stands with them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from fleetagent.domain.resource import Condition
from fleetagent.domain.status import Finding
from fleetagent.errors import BadResource

FIELD = "spec.alerts.notifySecretRef"
CONDITION = "AlertsDelivered"
MOST_RECEIVERS = 20
LONGEST_URL = 2048


@dataclass(frozen=True, slots=True)
class Receiver:
    """One line of the Secret. Its URL holds a secret: it is neither shown nor logged."""

    line: int
    url: str = field(repr=False)

    @property
    def schema(self) -> str:
        """What stands before `://`: which service it is."""
        return self.url.partition("://")[0].lower() if "://" in self.url else ""

    @property
    def mark(self) -> str:
        """Tells it from the others, whatever line it moves to; too short to guess the URL by it."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """For people."""
        return f"line {self.line} ({self.schema[:20]}://)" if self.schema.isalnum() else f"line {self.line}"


def receivers_in(text: str) -> tuple[Receiver, ...]:
    """One URL a line; empty lines and those that begin with # are left out, and so is what stands there twice."""
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), start=1))
    found = [Receiver(number, line) for number, line in lines if line and not line.startswith("#")]
    if not found:
        raise BadResource(CONDITION, "NoURL", f"{FIELD}: the Secret's value holds no URL: write one a line")
    if len(found) > MOST_RECEIVERS:
        words = f"{FIELD}: {len(found)} URLs are too many: leave at most {MOST_RECEIVERS}"
        raise BadResource(CONDITION, "TooManyURLs", words)
    first: dict[str, Receiver] = {}
    for receiver in found:
        first.setdefault(receiver.url, receiver)
    return tuple(first.values())


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of an agent's receivers since this process began."""

    problem: Finding | None
    was_sent: bool
    """Whether it tells of a message, and not only of what stands in the Secret."""


LOST = frozenset({"ReceiverFailed", "GivenUp"})
"""What a look at the Secret does not mend: only a message that is taken does."""


def delivered(*, asked: bool, standing: Standing | None, before: Iterable[Condition]) -> Finding:
    """The condition; what a process before this one has learnt holds until a message goes out."""
    if not asked:
        sentence = "spec.alerts is not set: alerts stay in status, Events and the page"
        return Finding("AlertsDelivered", "Unknown", "NoReceivers", sentence)
    if standing is not None and standing.problem is not None:
        return standing.problem
    known = next((c for c in before if c.type == CONDITION and c.reason != "NoReceivers"), None)
    if known is not None and (standing is None or (not standing.was_sent and known.reason in LOST)):
        return Finding(known.type, known.status, known.reason, known.message)
    if standing is None:
        return Finding("AlertsDelivered", "Unknown", "NotLookedAtYet", f"{FIELD} has not been looked at yet")
    return Finding(
        "AlertsDelivered", "True", "NothingWaits", "every alert has reached its receivers, or there was none"
    )
