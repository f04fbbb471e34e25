"""Whether the demo has done what it promises: pure, each difference a sentence of its own."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from fleetagent.dev.facts import Facts
from fleetagent.domain.resource import FleetAgent

TIME_TO_MEASURE = timedelta(seconds=60)
"""With less, machines may still be on their way to their first benchmark: then the projection alone counts."""


@dataclass(slots=True)
class Best:
    """The most that was measured, and whether it was enough at that moment."""

    proofs_per_hour: float = 0.0
    reached: bool = False

    def note(self, facts: Facts) -> None:
        """Take one look into account."""
        measured = facts.measured_proofs_per_hour
        self.proofs_per_hour = max(self.proofs_per_hour, measured)
        if facts.agent is not None and Decimal(str(measured)) >= enough(facts.agent):
            self.reached = True


def enough(agent: FleetAgent) -> Decimal:
    """The target less its tolerance, in proofs per hour."""
    target = agent.spec.target
    return target.proofs_per_hour * (1 - target.tolerance_percent / 100)


def off_target(facts: Facts, best: Best, lasted: timedelta) -> tuple[str, ...]:
    """What target and budget lack, at the end of the time that was given."""
    return (*facts.unreadable, *_projected(facts), *_measured(facts, best, lasted), *_over_budget(facts))


def disagreements(facts: Facts) -> tuple[str, ...]:
    """Where ledger, market and model server tell different stories."""
    return (*facts.unreadable, *_machines(facts), *_launches(facts), *_violations(facts))


def in_numbers(facts: Facts, best: Best) -> tuple[str, ...]:
    """What was reached, as far as it could be read."""
    if facts.agent is None or facts.ledger is None or facts.market is None or facts.model is None:
        return ()
    fleet = facts.agent.status.fleet
    projected = fleet.projected_proofs_per_hour if fleet else None
    measured = f"{facts.measured_proofs_per_hour:.0f} measured ({best.proofs_per_hour:.0f} at best)"
    bill, budget = _bill(facts), facts.agent.spec.budget.fleet_usd_per_hour
    return (
        f"proofs/h   {_number(projected)} projected, {measured} of {facts.agent.spec.target.proofs_per_hour}",
        f"USD/h      {bill:.2f} of {budget:.2f}",
        f"machines   {len(facts.market.machines)} on the market, {len(facts.ledger.machines)} in the ledger",
        f"creates    {facts.market.creates} for {facts.ledger.launches} launches in the ledger",
        f"model      {facts.model.requests} requests, {sum(facts.model.violations.values())} violations",
    )


def _projected(facts: Facts) -> Iterator[str]:
    if facts.agent is None:
        return
    found = next((c for c in facts.agent.status.conditions if c.type == "OnTarget"), None)
    if found is None:
        yield "the target was not reached: the FleetAgent has no condition OnTarget"
    elif found.status != "True":
        yield f"the target was not reached: OnTarget is {found.status} ({found.reason}): {found.message}"
    elif (found.observed_generation or 0) < facts.agent.metadata.generation:
        yield "the target was not reached: OnTarget speaks of an older spec"


def _measured(facts: Facts, best: Best, lasted: timedelta) -> Iterator[str]:
    if facts.agent is not None and lasted >= TIME_TO_MEASURE and not best.reached:
        yield (
            f"the proving machines never made enough: at best {best.proofs_per_hour:.0f} proofs/h were measured, "
            f"and {enough(facts.agent):.0f} are wanted"
        )


def _over_budget(facts: Facts) -> Iterator[str]:
    if facts.agent is None:
        return
    budget = facts.agent.spec.budget.fleet_usd_per_hour
    in_ledger = sum((m.usd_per_hour for m in facts.own_machines), Decimal(0))
    for where, bill in (("market", _bill(facts)), ("ledger", in_ledger)):
        if bill > budget:
            yield f"by the {where}, the fleet costs {bill:.2f} USD/h, and the budget is {budget:.2f}"


def _machines(facts: Facts) -> Iterator[str]:
    if facts.ledger is None or facts.market is None:
        return
    known = {m.provider_id: m for m in facts.ledger.machines if m.provider_id is not None}
    living = {m.id for m in facts.market.machines}
    for rented in facts.market.machines:
        if rented.id not in known:
            yield f"machine {rented.id} ({rented.label}) lives on the market and is not in the ledger"
        elif known[rented.id].label != rented.label:
            yield f"machine {rented.id} is {rented.label} on the market and {known[rented.id].label} in the ledger"
    for machine in facts.ledger.machines:
        if machine.provider_id is None:
            yield f"{machine.label} stands in the ledger as {machine.phase}, and nobody knows its machine"
        elif machine.provider_id not in living:
            yield f"machine {machine.provider_id} is {machine.phase} in the ledger and does not live on the market"
    labels = Counter(m.label for m in facts.market.machines)
    for label, count in labels.items():
        if count > 1:
            yield f"{count} machines on the market carry the label {label}: one intent was carried out more than once"


def _launches(facts: Facts) -> Iterator[str]:
    if facts.ledger is None or facts.market is None:
        return
    if facts.market.creates > facts.ledger.launches:
        yield f"the market was told to create {facts.market.creates} machines, the ledger has {facts.ledger.launches}"


def _violations(facts: Facts) -> Iterator[str]:
    for rule, count in (facts.model.violations if facts.model else {}).items():
        yield f"the model server found requests that real ones would refuse: {rule}, {count} times"


def _bill(facts: Facts) -> Decimal:
    """What the market takes per hour for this agent's machines, known to the ledger or not."""
    rented = facts.market.machines if facts.market else ()
    return sum((m.usd_per_hour for m in rented if m.label.startswith(facts.label_prefix)), Decimal(0))


def _number(value: Decimal | None) -> str:
    return "?" if value is None else f"{value:.0f}"
