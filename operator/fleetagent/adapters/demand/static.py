"""Demand that is what the resource says, for good."""

from dataclasses import dataclass

from fleetagent.domain.demand import Demand


@dataclass(frozen=True, slots=True)
class StaticSource:
    """Always the same answer. Implements `ports.DemandSource`."""

    active: bool

    async def demand(self) -> Demand:
        """What the resource says; never fails."""
        return Demand(active=self.active)
