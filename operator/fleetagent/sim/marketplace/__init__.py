"""A GPU market that speaks vast.ai's API, and machines that run the worker protocol.

Read in this order: `market` (what a call does), `hosts` and `supply` (what is for rent), `fate` and `timeline` (what
becomes of a machine), `app` (the paths), `faults` and `simapi` (what a test can switch). Deliberately shares no code
with our own client of that API.
"""

from fleetagent.sim.marketplace.cli import add_arguments, main
from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.server import RunningMarketplace, running, serve

__all__ = ["MarketplaceConfig", "RunningMarketplace", "add_arguments", "main", "running", "serve"]
