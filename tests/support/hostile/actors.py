"""Who lives in a hostile world: its agents, and what stands behind their ports."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fleetagent.agent.desk import Desk
from fleetagent.agent.subject import Subject
from fleetagent.domain.demand import Demand
from fleetagent.domain.fleet import Instance
from fleetagent.domain.records import AgentKey, AgentRecord, Lease
from fleetagent.domain.resource import FleetAgent
from fleetagent.domain.settle import Change, Doomed
from fleetagent.errors import BadResource, TryLater
from support.hostile.clients import Client
from support.hostile.stock import Machine

if TYPE_CHECKING:
    from support.hostile.world import World


class HostileWorlds:
    """Implements `ports.Worlds` and `ports.Cluster` for all agents of a world."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.events: list[str] = []
        self.refusals: Counter[str] = Counter()

    def _of(self, agent: FleetAgent) -> "Actor":
        return self.world.actors[agent.metadata.name]

    async def market(self, agent: FleetAgent) -> Any:
        if self._of(agent).no_key:
            raise BadResource("FleetKnown", "SecretMissing", "the Secret does not exist: create it")
        return self.world.market.seen_from(agent.metadata.name)

    async def demand(self, agent: FleetAgent) -> Any:
        return self._of(agent)

    async def instance_env(self, agent: FleetAgent) -> Mapping[str, str]:
        del agent
        return {}

    async def installation_stop(self) -> str | None:
        return "the ConfigMap exists" if self.world.installation_stopped else None

    def refused(self, key: AgentKey, kind: str, code: str) -> None:
        """It is the meter too."""
        del key
        self.refusals[f"{kind} {code}"] += 1

    def acted(self, *_: Any) -> None:
        """The books tell that."""

    async def event(self, *_: Any, message: str, **__: Any) -> None:
        self.events.append(message)


@dataclass
class Actor:
    """One agent: its resource, its lease, the run that goes on."""

    name: str
    client: Client
    changes: dict[str, Any]
    agent: FleetAgent
    record: AgentRecord
    lease: Lease | None = None
    desk: Desk | None = None
    round_no: int = 0
    no_key: bool = False

    async def demand(self) -> Demand:
        """It is its own demand source."""
        if self.client.demand is None:
            raise TryLater("the source does not answer")
        return Demand(active=self.client.demand)

    @property
    def subject(self) -> Subject:
        return Subject(self.agent, self.record, self.client.prefix)


class WatchedLedger:
    """The ledger, with the auditor beside it where stops are written down."""

    def __init__(self, ledger: Any, world: "World") -> None:
        self._ledger = ledger
        self._world = world
        self.stops: dict[tuple[int, int], int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def settle(
        self, lease: Lease, changes: Sequence[Change], now: datetime, doomed: Sequence[Doomed] = ()
    ) -> None:
        machines = [self._stopping(lease, 0, each.instance, "lifecycle") for each in doomed]
        await self._ledger.settle(lease, changes, now, doomed)
        client = self._world.actor_of(lease.agent_id).client
        client.failed_hosts |= {each.instance.machine_id: now for each in doomed if each.host_failed}
        for machine in machines:
            if machine is not None:
                machine.ending = True

    def _stopping(self, lease: Lease, run_id: int, instance: Instance, by: str) -> Machine | None:
        actor = self._world.actor_of(lease.agent_id)
        machine = self._world.market.machines.get(instance.provider_id or "")
        self._world.auditor.stopping(actor.name, machine, run_id, by, self.stops.get((lease.agent_id, run_id), 0))
        return machine

    async def intend_stop(self, lease: Lease, run_id: int, instance: Instance, **row: Any) -> int:
        key = lease.agent_id, run_id
        machine = self._stopping(lease, run_id, instance, row["by"])
        action: int = await self._ledger.intend_stop(lease, run_id, instance, **row)
        if machine is not None:
            machine.ending = True
        if row["by"] == "model":
            self.stops[key] = self.stops.get(key, 0) + 1
        return action
