"""vast.ai: the market where machines are rented. Only this package knows its field names, units and habits."""

from fleetagent.adapters.vast.client import VastMarket, VastMarkets
from fleetagent.adapters.vast.pacing import DEFAULT_LIMITS, NO_LIMITS, Endpoint, Limit, Pacer
from fleetagent.adapters.vast.search import SearchMemory

__all__ = ["DEFAULT_LIMITS", "NO_LIMITS", "Endpoint", "Limit", "Pacer", "SearchMemory", "VastMarket", "VastMarkets"]
