"""What the agent tells those who watch the operator from outside."""

from typing import Protocol

from fleetagent.domain.records import AgentKey


class Meter(Protocol):
    """Counts what happens. It never waits and never fails: nothing may go differently because it is looked at."""

    def compacted(self, key: AgentKey, method: str) -> None:
        """A compaction has taken place; `method` is Masked, Summary or Digest."""

    def refused(self, key: AgentKey, kind: str, code: str) -> None:
        """An action, a launch or a stop, was refused by the rule with this code."""

    def fields_dropped(self, count: int) -> None:
        """So many fields of the last report were not kept: the cluster's definition of the resource is older."""
