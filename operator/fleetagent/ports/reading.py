"""What page and API read. Nothing here writes, waits for a lease or holds a transaction."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from fleetagent.domain.records import AgentKey
from fleetagent.domain.said import OneWord
from fleetagent.domain.views import (
    ActionView,
    AgentRow,
    AlertView,
    CompactionView,
    HostView,
    MachineView,
    MessageView,
    Page,
    RunRow,
    RunView,
    SampleView,
    SessionView,
    SpendView,
    WakeView,
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Which rows of many: at most `limit`, from where an earlier page's `next` says, and from a span of time."""

    limit: int = 50
    after: str | None = None
    """An earlier page's `next`. `BadCursor` when it is none."""
    since: datetime | None = None
    """From this moment on."""
    until: datetime | None = None
    """Before this moment."""


EVERYTHING = Slice()


class Reading(Protocol):
    """Everything that stands about agents of this cluster. `TryLater` when the database is not there.

    Of an agent that nobody knows, lists are empty and single things None. Cost does not grow with what is stored.
    """

    async def namespaces(self) -> tuple[str, ...]:
        """The namespaces that have an agent."""

    async def agents(self, namespaces: tuple[str, ...], *, deleted: bool = False) -> tuple[AgentRow, ...]:
        """Their agents by name, the deleted ones only if asked for."""

    async def agent(self, key: AgentKey) -> AgentRow | None:
        """One agent."""

    async def runs(
        self, key: AgentKey, which: Slice = EVERYTHING, *, outcome: str | None = None, trigger: str | None = None
    ) -> Page[RunRow]:
        """Runs, newest first."""

    async def run(self, key: AgentKey, run_id: int) -> RunView | None:
        """One run with actions, messages and compactions."""

    async def sessions(self, key: AgentKey, which: Slice = EVERYTHING) -> Page[SessionView]:
        """Sessions, newest first."""

    async def session(self, key: AgentKey, session_id: int | None = None) -> SessionView | None:
        """One session of this agent (None: the current one)."""

    async def conversation(
        self, key: AgentKey, session_id: int | None = None, which: Slice = EVERYTHING, *, in_prompt: bool = False
    ) -> Page[MessageView]:
        """Messages of a session (None: the current one), newest first; `in_prompt`: only what the model sees now."""

    def export(self, key: AgentKey, session_id: int) -> AsyncIterator[MessageView]:
        """All messages of a session from its beginning, read in portions."""

    async def compactions(self, key: AgentKey, session_id: int | None = None) -> tuple[CompactionView, ...]:
        """Of one session (None: the current one), newest first, at most 100."""

    async def actions(
        self,
        key: AgentKey,
        which: Slice = EVERYTHING,
        *,
        run_id: int | None = None,
        states: tuple[str, ...] = (),
    ) -> Page[ActionView]:
        """Actions, newest first; refused ones too."""

    async def wakes(self, key: AgentKey, which: Slice = EVERYTHING, *, state: str | None = None) -> Page[WakeView]:
        """Wakes; pending ones by their moment, else newest first."""

    async def alerts(self, key: AgentKey, which: Slice = EVERYTHING, *, state: str | None = None) -> Page[AlertView]:
        """Alerts, newest first."""

    async def machines(self, key: AgentKey, which: Slice = EVERYTHING, *, ended: bool = False) -> Page[MachineView]:
        """Machines, newest first; those that are gone or failed only if asked for."""

    async def hosts(self, key: AgentKey) -> tuple[HostView, ...]:
        """Hosts that were measured or have failed, at most 500."""

    async def spend(self, key: AgentKey, days: int = 30) -> tuple[SpendView, ...]:
        """By UTC day, newest first."""

    async def samples(
        self, key: AgentKey, since: datetime, until: datetime, *, most: int = 500
    ) -> tuple[SampleView, ...]:
        """The fleet over time, oldest first, thinned to at most so many moments."""

    async def versions(self, keys: tuple[AgentKey, ...]) -> Mapping[AgentKey, str]:
        """Of each agent a short text that is another one when something that is shown of it has changed.

        One cheap statement for all of them, since it is asked every other second while somebody watches: the newest
        run and its state, the newest sample, message, action and wake, and what waits, is open, or lives now.
        """

    async def heard(self, key: AgentKey, name: OneWord, value: str) -> bool:
        """Whether the operator has written down what was said, as `domain.said.value_of` remembers it.

        From then on another word in the same annotation does not take its place.
        """
