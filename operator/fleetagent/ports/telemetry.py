"""What the agent tells those who watch the operator from outside."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from fleetagent.domain.observation import Observation
from fleetagent.domain.records import AgentKey, Run
from fleetagent.domain.resource import Condition, FleetAgentSpec, FleetAgentStatus
from fleetagent.domain.retention import TableSize

ActionCame: TypeAlias = Literal["done", "failed", "unknown", "waiting"]
"""What first came of an action that no rule refused: `unknown` is settled later."""
LeaseChange: TypeAlias = Literal["Taken", "Lost", "HandedOver"]


class Meter(Protocol):
    """Counts what happens. It never waits and never fails: nothing may go differently because it is looked at."""

    def run_began(self, key: AgentKey, run: Run, due_at: datetime | None) -> None:
        """A run goes on, that was due then; None where that is not known. All that waited is taken up."""

    def run_ended(self, key: AgentKey, run: Run, outcome: str) -> None:
        """It is over, and came to this."""

    def waits(self, key: AgentKey, since: datetime | None) -> None:
        """The oldest trigger or due wake that no run has taken up; None when nothing waits."""

    def reported(
        self,
        key: AgentKey,
        spec: FleetAgentSpec,
        status: FleetAgentStatus,
        seen: Observation | None,
        *,
        wakes: int,
        waiting: int,
    ) -> None:
        """What the status says now, written or not: one source for both, so that they agree.

        `seen` is the look that it is made from. The status shows the first wakes and waiting actions; these are all.
        """

    def conditions(self, key: AgentKey, conditions: Iterable[Condition]) -> None:
        """The conditions alone, where nothing else can be known."""

    def fields_dropped(self, count: int) -> None:
        """So many fields of the last report were not kept: the cluster's definition of the resource is older."""

    def compacted(self, key: AgentKey, method: str) -> None:
        """A compaction has taken place; `method` is Masked, Summary or Digest."""

    def acted(self, key: AgentKey, kind: str, state: ActionCame) -> None:
        """An action of a run, a launch or a stop, was let through by every rule, and this came of it."""

    def refused(self, key: AgentKey, kind: str, code: str) -> None:
        """An action, a launch or a stop, was refused by the rule with this code."""

    def notified(self, key: AgentKey, outcome: str) -> None:
        """An attempt to bring an alert outside is over: Delivered, Failed (it is tried again) or GivenUp."""

    def undelivered(self, key: AgentKey, count: int) -> None:
        """So many alerts have not reached the outside yet."""

    def lease(self, change: LeaseChange) -> None:
        """An agent came to this process, or left it."""

    def tables(self, sizes: Mapping[str, TableSize]) -> None:
        """What the tables of all agents hold."""

    def forget(self, key: AgentKey) -> None:
        """The agent is gone: so are its series."""

    def rest(self) -> None:
        """This process keeps no agent any more: it must not go on telling of any."""
