"""A host wants more money to let a contract go on after its end.

Accepted, the contract is longer, and costs more from its old end on. Otherwise it just ends there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.sim.marketplace.errors import Refused, invalid_args
from fleetagent.sim.marketplace.machines import Machine

FIRST_RISE = 7_000


@dataclass(slots=True)
class PriceRise:
    """One request; `answer` is None while it is pending. Times are seconds of the wall clock."""

    id: int
    machine: Machine
    old_usd_per_hour: float
    new_usd_per_hour: float
    asked_wall: float
    answer: str | None = None


class Rises:
    """The requests of one market."""

    def __init__(self) -> None:
        self._all: list[PriceRise] = []

    def ask(self, machine: Machine, usd_per_hour: float, wall_s: float) -> PriceRise:
        """The host wants so much from now on; a newer request takes the place of a pending one."""
        for rise in self._pending():
            if rise.machine is machine:
                rise.answer = "replaced"
        rise = PriceRise(FIRST_RISE + len(self._all), machine, machine.usd_per_hour, usd_per_hour, wall_s)
        self._all.append(rise)
        return rise

    def envelope(self, account_id: int) -> dict[str, Any]:
        """`GET /instances/pending-price-increases/`."""
        rows = [_row(rise) for rise in self._pending() if rise.machine.account_id == account_id]
        return {"success": True, "count": len(rows), "truncated": False, "pending_price_increases": rows}

    def find(self, account_id: int, body: Mapping[str, Any]) -> PriceRise:
        """The pending one that the body names, and names alone."""
        number = body.get("pending_price_increase_id")
        if len(body) != 1 or isinstance(number, bool) or not isinstance(number, int):
            raise invalid_args('the body must be exactly {"pending_price_increase_id": int}')
        for rise in self._pending():
            if rise.id == number and rise.machine.account_id == account_id:
                return rise
        raise Refused(404, "no_pending_price_increase", "this price increase is no longer pending")

    def _pending(self) -> list[PriceRise]:
        return [rise for rise in self._all if rise.answer is None and rise.machine.live]


def _row(rise: PriceRise) -> dict[str, Any]:
    unchanged = dict.fromkeys(
        f"{age}_{part}"
        for part in ("disk_ram_costpersec", "bwu_cost", "bwd_cost", "platform_fee")
        for age in ("old", "new")
    )
    return unchanged | {
        "pending_price_increase_id": rise.id,
        "contract_id": rise.machine.id,
        "host_id": rise.machine.host.host_id,
        "old_gpu_costpersec": rise.old_usd_per_hour / 3600,
        "new_gpu_costpersec": rise.new_usd_per_hour / 3600,
        "contract_end_date": rise.machine.end_wall,
        "ask_end_date": rise.machine.end_wall + rise.machine.host.longest_s,
        "created_at": rise.asked_wall,
    }
