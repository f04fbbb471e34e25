"""Sessions of the page: in this process's memory, each holding one caller's token for a while."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

IDLE = timedelta(minutes=30)
LONGEST = timedelta(hours=8)
MOST_SESSIONS = 2_000
MOST_OF_ONE = 20
"""Sessions of one person: who logs in again and again ends their own oldest, nobody else's."""


@dataclass(slots=True)
class Session:
    """One browser that is signed in. `ends_at` comes whatever its owner does."""

    token: str = field(repr=False)
    name: str | None
    csrf: str = field(repr=False)
    ends_at: datetime
    used_at: datetime
    key: str = field(repr=False)
    """The hash of the cookie's value; empty for the one session of a page without login."""

    def over(self, now: datetime) -> bool:
        """Whether it has ended."""
        return now >= self.ends_at or now >= self.used_at + IDLE

    def has_csrf(self, said: str | None) -> bool:
        """Whether this is the session's own CSRF token; it takes as long for each wrong one."""
        return said is not None and hmac.compare_digest(self.csrf.encode(), said.encode())


class Sessions:
    """All sessions of this process. A cookie's value is not kept: its hash is."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._sessions: dict[str, Session] = {}

    def open(self, token: str, name: str | None) -> str:
        """A new session, never an earlier one taken up again; the cookie's value."""
        now, value = self._now(), secrets.token_urlsafe(32)
        self._make_room(token, name, now)
        ends_at = min(now + LONGEST, expires_at(token) or now + LONGEST)
        self._sessions[_hash(value)] = Session(token, name, secrets.token_urlsafe(32), ends_at, now, _hash(value))
        return value

    def find(self, value: str | None) -> Session | None:
        """The session of a cookie, which counts as used; None when there is none or it is over."""
        session = self._sessions.get(_hash(value)) if value else None
        if session is None or not self.stands(session):
            return None
        session.used_at = self._now()
        return session

    def stands(self, session: Session) -> bool:
        """Whether it is neither over nor closed; to ask is no use of it."""
        if not session.over(self._now()):
            return session.key in self._sessions
        self.close(session)
        return False

    def close(self, session: Session) -> None:
        """End it; harmless when done twice."""
        self._sessions.pop(session.key, None)

    def _make_room(self, token: str, name: str | None, now: datetime) -> None:
        for session in [s for s in self._sessions.values() if s.over(now)]:
            self.close(session)
        theirs = [s for s in self._sessions.values() if (s.name or s.token) == (name or token)]
        if len(theirs) >= MOST_OF_ONE:
            self.close(min(theirs, key=_used_at))
        if len(self._sessions) >= MOST_SESSIONS:
            self.close(min(self._sessions.values(), key=_used_at))


def expires_at(token: str) -> datetime | None:
    """The `exp` of a JWT, unchecked: the API server is the judge, this only ends a session in time."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(float(claims["exp"]), UTC)
    except (LookupError, ValueError, TypeError, OverflowError, OSError, RecursionError, binascii.Error):
        return None


def _used_at(session: Session) -> datetime:
    return session.used_at


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
