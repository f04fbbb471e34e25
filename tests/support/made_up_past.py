"""A `Reading` that says what a test gives it, and counts how often it was asked."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

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
from fleetagent.errors import TryLater
from fleetagent.ports.reading import EVERYTHING, Slice

Row = TypeVar("Row")


@dataclass
class MadeUpPast:
    """Every agent has the same past; `known` are the agents that there are."""

    known: list[AgentRow] = field(default_factory=list)
    its_runs: Sequence[RunRow] = ()
    its_alerts: Sequence[AlertView] = ()
    its_actions: Sequence[ActionView] = ()
    its_samples: Sequence[SampleView] = ()
    version: dict[AgentKey, str] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    away: bool = False

    async def namespaces(self) -> tuple[str, ...]:
        self._ask("namespaces")
        return tuple(sorted({row.namespace for row in self.known}))

    async def agents(self, namespaces: tuple[str, ...], *, deleted: bool = False) -> tuple[AgentRow, ...]:
        self._ask("agents")
        rows = [row for row in self.known if row.namespace in namespaces]
        return tuple(row for row in rows if deleted or row.deleted_at is None)

    async def agent(self, key: AgentKey) -> AgentRow | None:
        self._ask("agent")
        return next((row for row in self.known if (row.namespace, row.name) == (key.namespace, key.name)), None)

    async def runs(
        self,
        key: AgentKey,
        which: Slice = EVERYTHING,
        *,
        outcome: str | None = None,
        trigger: str | None = None,
    ) -> Page[RunRow]:
        self._ask("runs", key)
        rows = [run for run in self.its_runs if outcome in {None, run.outcome}]
        return _page([run for run in rows if trigger is None or trigger in run.triggers], which)

    async def run(self, key: AgentKey, run_id: int) -> RunView | None:
        self._ask("run", key)
        found = next((run for run in self.its_runs if run.run_id == run_id), None)
        return None if found is None else RunView(run=found, actions=(), messages=(), compactions=())

    async def sessions(self, key: AgentKey, which: Slice = EVERYTHING) -> Page[SessionView]:
        self._ask("sessions", key)
        return _page([row.session for row in self.known[:1] if row.session is not None], which)

    async def session(self, key: AgentKey, session_id: int | None = None) -> SessionView | None:
        self._ask("session", key)
        found = next((row.session for row in self.known if row.session is not None), None)
        return found if found is None or session_id in {None, found.id} else None

    async def conversation(
        self,
        key: AgentKey,
        session_id: int | None = None,  # noqa: ARG002
        which: Slice = EVERYTHING,  # noqa: ARG002
        *,
        in_prompt: bool = False,  # noqa: ARG002
    ) -> Page[MessageView]:
        self._ask("conversation", key)
        return Page[MessageView](items=())

    async def export(self, key: AgentKey, session_id: int) -> AsyncIterator[MessageView]:  # noqa: ARG002
        self._ask("export", key)
        for message in tuple[MessageView, ...]():
            yield message

    async def compactions(self, key: AgentKey, session_id: int | None = None) -> tuple[CompactionView, ...]:  # noqa: ARG002
        self._ask("compactions", key)
        return ()

    async def actions(
        self,
        key: AgentKey,
        which: Slice = EVERYTHING,
        *,
        run_id: int | None = None,
        states: tuple[str, ...] = (),
    ) -> Page[ActionView]:
        self._ask("actions", key)
        rows = [each for each in self.its_actions if run_id in {None, each.run_id}]
        return _page([each for each in rows if not states or each.state in states], which)

    async def wakes(self, key: AgentKey, which: Slice = EVERYTHING, *, state: str | None = None) -> Page[WakeView]:  # noqa: ARG002
        self._ask("wakes", key)
        return Page[WakeView](items=())

    async def alerts(self, key: AgentKey, which: Slice = EVERYTHING, *, state: str | None = None) -> Page[AlertView]:
        self._ask("alerts", key)
        return _page([alert for alert in self.its_alerts if state in {None, alert.state}], which)

    async def machines(self, key: AgentKey, which: Slice = EVERYTHING, *, ended: bool = False) -> Page[MachineView]:  # noqa: ARG002
        self._ask("machines", key)
        return Page[MachineView](items=())

    async def hosts(self, key: AgentKey) -> tuple[HostView, ...]:
        self._ask("hosts", key)
        return ()

    async def spend(self, key: AgentKey, days: int = 30) -> tuple[SpendView, ...]:  # noqa: ARG002
        self._ask("spend", key)
        return tuple(row.spend_today for row in self.known[:1] if row.spend_today is not None)

    async def samples(
        self,
        key: AgentKey,
        since: datetime,
        until: datetime,
        *,
        most: int = 500,
    ) -> tuple[SampleView, ...]:
        self._ask("samples", key)
        return tuple(sample for sample in self.its_samples if since <= sample.at < until)[-most:]

    async def versions(self, keys: tuple[AgentKey, ...]) -> Mapping[AgentKey, str]:
        self._ask("versions")
        return {key: self.version.get(key, "0") for key in keys}

    async def heard(self, key: AgentKey, name: OneWord, value: str) -> bool:  # noqa: ARG002
        self._ask("heard", key)
        return True

    def _ask(self, what: str, key: AgentKey | None = None) -> None:  # noqa: ARG002
        self.asked[what] += 1
        if self.away:
            raise TryLater("the database does not answer")


def _page(rows: Sequence[Row], which: Slice) -> Page[Row]:
    begin = int(which.after or 0)
    end = begin + which.limit
    return Page[Row].model_construct(items=tuple(rows[begin:end]), next=str(end) if len(rows) > end else None)
