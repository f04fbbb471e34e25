"""A GPU market that speaks vast.ai's API, and machines that run the worker protocol.

Read in this order: `market` (who rents what), `hosts`, `supply` and `rivals` (what is for rent), `fate` and `timeline`
(what becomes of a machine), `wishes`, `rises` and `books` (what people, hosts and money change about it); then `app`
(the paths), `calls` and `contracts` (what each call does), `kinds`, `faults` and `simapi` (what a test can switch);
`server` (over sockets). Deliberately shares no code with our own client of that API; vast.ai's own works with it.
"""

from fleetagent.sim.marketplace.cli import add_arguments, main
from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.server import RunningMarketplace, running, serve

__all__ = [
    "MarketplaceConfig",
    "RunningMarketplace",
    "add_arguments",
    "main",
    "running",
    "serve",
]
