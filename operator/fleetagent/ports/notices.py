"""What is told of alerts outside: where it waits, and who brings it there."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from fleetagent.domain.notices import Notice, Words
from fleetagent.domain.receivers import Receiver
from fleetagent.domain.records import AgentKey


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to send what waits for one agent, for a while; whoever claims it later has another mark."""

    agent_id: int
    mark: str
    notices: tuple[Notice, ...]
    """Oldest first."""


class Outbox(Protocol):
    """What waits to be told, in the database: written with the alert itself, marked off once a receiver has it.

    `TryLater` when the database is not there. `LeaseLost` when another process has claimed the same meanwhile: this
    one was too slow, and sends no more of it.
    """

    async def due(self) -> frozenset[AgentKey]:
        """The agents for which something waits that may be tried now, and that nobody is sending."""

    async def waiting(self, key: AgentKey) -> int:
        """How much waits for this agent."""

    async def claim(self, key: AgentKey) -> Claim | None:
        """All that waits for this agent; None when there is nothing, or another process is sending."""

    async def taken(self, claim: Claim, ids: Sequence[int], mark: str) -> None:
        """The receiver with this mark has these; the claim lasts for longer."""

    async def sent(self, claim: Claim, ids: Sequence[int]) -> None:
        """Everybody has these."""

    async def put_back(self, claim: Claim, ids: Sequence[int], wait: timedelta, error: str | None) -> None:
        """These wait for so long, and then for whoever claims them next."""

    async def give_up(self, claim: Claim, ids: Sequence[int], error: str) -> None:
        """These are tried no more."""

    async def unwanted(self, key: AgentKey) -> None:
        """Nobody wants to hear of what waits for this agent."""

    async def remind(self) -> None:
        """Write down once more what was told, is open and has been acknowledged by nobody for long."""


class Pager(Protocol):
    """Brings a message to a receiver."""

    async def check(self, receiver: Receiver) -> None:
        """`BadResource` for a URL that will not be opened, `TryLater` when that cannot be told now. Nothing is sent."""

    async def send(self, receiver: Receiver, words: Words) -> None:
        """Return when the receiver has taken it. `BadResource` as above, `TryLater` for a receiver that failed.

        Neither message holds anything of the URL but its line and service. It takes some 20 seconds at most, even
        where a receiver never answers.
        """
