"""The faults of real model servers, each by the name of its row in the catalogue: A1, A14, A21 and so on.

A row that real servers show in several forms has one entry for each: `A31` and `A31/llama.cpp`.
"""

from collections.abc import Mapping

from fleetagent.sim.model.faults import availability, output, overflow, protocol
from fleetagent.sim.model.faults.moment import Fault, Moment

CATALOGUE: Mapping[str, Fault] = {
    fault.name: fault for module in (overflow, availability, output, protocol) for fault in module.FAULTS
}

__all__ = ["CATALOGUE", "Fault", "Moment"]
