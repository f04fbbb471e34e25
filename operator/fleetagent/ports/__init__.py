"""What the agent needs of the world (`world`) and of its memory (`memory`), and whom it tells (`telemetry`).

Adapters keep these promises.
"""

from fleetagent.ports.memory import Agents, Audit, Conversation, Leases, Ledger, Runs
from fleetagent.ports.telemetry import Meter
from fleetagent.ports.world import Cluster, DemandSource, Market, Model, Tokens, Worlds

__all__ = [
    "Agents",
    "Audit",
    "Cluster",
    "Conversation",
    "DemandSource",
    "Leases",
    "Ledger",
    "Market",
    "Meter",
    "Model",
    "Runs",
    "Tokens",
    "Worlds",
]
