"""What the keepers of all agents work with."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from fleetagent.agent.clock import Now
from fleetagent.agent.lease import Ownership
from fleetagent.agent.observe import Observe
from fleetagent.agent.pruning import Pruning
from fleetagent.agent.report import Report
from fleetagent.agent.served import Served
from fleetagent.agent.turn import Turn
from fleetagent.domain.receivers import Standing
from fleetagent.domain.records import AgentKey
from fleetagent.ports import Agents, Ledger, Meter, Runs


@dataclass(frozen=True, slots=True)
class Keeping:
    """What keepers work with; the same for all agents."""

    cluster_name: str
    agents: Agents
    ownership: Ownership
    runs: Runs
    ledger: Ledger
    observe: Observe
    served: Served
    turn: Turn
    report: Report
    prune: Pruning
    meter: Meter
    standing: Callable[[AgentKey], Standing | None]
    """How it stands with those whom an agent's alerts go to."""
    now: Now
    look_every: timedelta
    """How old the picture of the fleet may be while no run is due."""
    listen_every: timedelta
    """How often the database is asked what others have persisted for any of the agents."""
    starting: asyncio.Semaphore
    """So many agents at a time are passed over for the first time: a thousand at once would each take long."""
    retry_after: timedelta
    """When to look again after a failure, or while another process owns the agent."""
