"""What all agents of one endpoint and key know together: when it may be asked again. Keeps no clock.

A refusal that one of them meets closes the gate for all, so that ten agents do not poll a busy server tenfold. When
it opens again, and before the first answer ever, they pass one by one: a server that refuses says so at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleetagent.adapters.model.waits import LONGEST_WAIT_SECONDS, Allowance, backoff_seconds

LONGEST_CLOSED_SECONDS = 3600.0
"""Whatever a server asks for: afterwards somebody looks whether it still holds."""

SPACING_SECONDS = 0.5
FORGOTTEN_AFTER_SECONDS = 2 * LONGEST_WAIT_SECONDS
"""Without a hint, a refusal this long after the last one is a new trouble, and its back-off starts small."""


@dataclass(slots=True)
class Gate:
    """One endpoint and key. Every `now` is seconds of one clock that never goes back."""

    closed_until: float = 0.0
    reason: str = ""
    said: str = ""
    """Why it is closed: our word for it, and the server's sentence with secrets removed."""

    _refusals: int = 0
    _answers: bool = False
    _next_at: float = 0.0
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)
    """What the server still takes, and until when that holds."""

    def closed_seconds(self, now: float) -> float:
        """How long nobody else may ask, since the server said so or is being asked about it; 0 when somebody may."""
        return max(0.0, self.closed_until - now, self._next_at - now if self._refusals else 0.0)

    def paced_seconds(self, now: float, needs: Mapping[str, float]) -> float:
        """How long it is wise to wait: for whoever passed just now, and for what the server will take again."""
        moments = [until for what, (left, until) in self._left.items() if until > now and left < needs.get(what, 0.0)]
        return max(0.0, max([self._next_at, *moments]) - now)

    def passed(self, now: float, needs: Mapping[str, float]) -> None:
        """Somebody asks now."""
        self._next_at = 0.0 if self._answers else now + SPACING_SECONDS
        for what, (left, until) in self._left.items():
            self._left[what] = (left - needs.get(what, 0.0), until)

    def answered(self, now: float, allowances: Iterable[Allowance]) -> None:
        """The server took a request: all may ask, within what it says that it still takes."""
        if now >= self.closed_until:  # what was asked before it closed says nothing of now
            self._answers, self._refusals, self._next_at = True, 0, 0.0
        self._left |= {a.what: (a.left, now + min(a.reset_seconds, LONGEST_WAIT_SECONDS)) for a in allowances}

    def refused(self, now: float, hint_seconds: float | None, chance: float, reason: str, said: str) -> None:
        """The server is busy or not ready: close for as long as it asks, else for a time that doubles."""
        if now - self.closed_until > FORGOTTEN_AFTER_SECONDS:
            self._refusals = 0
        if now >= self.closed_until:  # calls that were under way together are refused once, not once each
            self._refusals += 1
        wait = backoff_seconds(max(self._refusals, 1), chance) if hint_seconds is None else hint_seconds
        self._answers, self.reason, self.said = False, reason, said
        self.closed_until = max(self.closed_until, now + min(wait, LONGEST_CLOSED_SECONDS))
