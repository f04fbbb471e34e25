"""The faults of real model servers, each by the name of its row in the catalogue: A1, A14, A21 and so on.

A row that real servers show in several forms has one entry for each: `A31` and `A31/llama.cpp`. Entries with a B are
bodies that other projects met. In the order of the modules below: too long, not there, thoughts, calls, arguments,
request refused, endings and counts, characters, summaries.
"""

from collections.abc import Mapping

from fleetagent.sim.model.faults import (
    arguments,
    availability,
    calls,
    characters,
    endings,
    overflow,
    protocol,
    reasoning,
    summaries,
    wordings,
)
from fleetagent.sim.model.faults.moment import Fault, Moment

MODULES = (
    overflow,
    wordings,
    availability,
    reasoning,
    calls,
    arguments,
    protocol,
    endings,
    characters,
    summaries,
)

CATALOGUE: Mapping[str, Fault] = {fault.name: fault for module in MODULES for fault in module.FAULTS}

__all__ = ["CATALOGUE", "Fault", "Moment"]
