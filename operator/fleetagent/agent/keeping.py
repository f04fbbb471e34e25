"""What the keepers of all agents work with."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from fleetagent.agent.clock import Now
from fleetagent.agent.observe import Observe
from fleetagent.agent.pruning import Pruning
from fleetagent.agent.report import Report
from fleetagent.agent.served import Served
from fleetagent.agent.turn import Turn
from fleetagent.ports import Agents, Ledger, Runs

LONGEST_TURN_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Keeping:
    """What keepers work with; the same for all agents."""

    cluster_name: str
    agents: Agents
    runs: Runs
    ledger: Ledger
    observe: Observe
    served: Served
    turn: Turn
    report: Report
    prune: Pruning
    now: Now
    look_every: timedelta
    """How old the picture of the fleet may be while no run is due."""
    listen_every: timedelta
    """How often the database is asked what others have persisted for any of the agents."""
    starting: asyncio.Semaphore
    """So many agents at a time are passed over for the first time: a thousand at once would each take long."""
    renew_every: timedelta
    """How often a lease is renewed while it is held."""
    retry_after: timedelta
    """When to look again after a failure, or while another process owns the agent."""


@contextlib.asynccontextmanager
async def in_turn(gate: asyncio.Semaphore, longest_seconds: float) -> AsyncIterator[None]:
    """Pass the gate, and let the next one pass at the end of the block, or sooner if that takes long.

    A market that does not answer holds up whoever looks at it, and nobody else.
    """
    await gate.acquire()
    is_open = False

    def let_the_next_pass() -> None:
        nonlocal is_open
        if not is_open:
            is_open = True
            gate.release()

    timer = asyncio.get_running_loop().call_later(longest_seconds, let_the_next_pass)
    try:
        yield
    finally:
        timer.cancel()
        let_the_next_pass()
