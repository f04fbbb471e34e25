"""What must hold at the market's door, written from the contract and from nothing that decides.

Where the contract leaves room (reads lag, late machines), only what is certain is called a breach.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal

from fleetagent.domain.fleet import MarketStatus, Offer, Order
from fleetagent.domain.resource import Direction, Mode
from support.hostile.clients import Client, Ordered, Told
from support.hostile.stock import START, Clock, Machine

GPU_CAP = {"RTX 3090": 55, "RTX 4090": 95, "RTX 5090": 120, "RTX 5070 Ti": 95}
CENT = Decimal("0.000001")
"""Rounding of what a database keeps of money."""


class DoorAuditor:
    """Implements `market.Auditor`. Breaches are collected: no agent's code can swallow them."""

    def __init__(self, clock: Clock, faults: Callable[[], object]) -> None:
        self._clock = clock
        self._faults = faults
        self.clients: dict[str, Client] = {}
        self.breaches: list[str] = []
        self.told_of: dict[str, dict[str, Told]] = {}
        self.labels: set[str] = set()
        self.launches = self.stops = 0

    def _must(self, holds: bool, agent: str, sentence: str) -> None:  # noqa: FBT001  # reads as a sentence
        if not holds:
            self.breaches.append(f"{self._clock.now:%m-%d %H:%M:%S} {agent}: {sentence}")

    def mine(self, client: Client) -> list[Machine]:
        """Living machines that the agent was shown."""
        return [t.machine for t in self.told_of.get(client.name, {}).values() if t.machine.gone_at is None]

    def spent_today(self, client: Client) -> Decimal:
        """What those that it knows have cost it since midnight, UTC."""
        midnight = self._clock.now.replace(hour=0, minute=0, second=0, microsecond=0)
        known = self.told_of.get(client.name, {}).values()
        return sum((t.usd_between(midnight, self._clock.now) for t in known), Decimal(0))

    # --- market.Auditor ---

    def told(self, agent: str, machines: list[Machine]) -> None:
        """Remember what the agent now knows of machines with its label or of its orders."""
        client, known = self.clients[agent], self.told_of.setdefault(agent, {})
        for machine in machines:
            is_mine = machine.provider_id in known or (machine.label or "").startswith(client.prefix)
            if is_mine and machine.gone_at is None:
                self._learn(client, machine, self._clock.now)
                machine.seen = True
        for order in client.orders:
            order.certain = order.certain or (order.machine is not None and order.machine.provider_id in known)

    def _learn(self, client: Client, machine: Machine, since: datetime) -> None:
        known = self.told_of.setdefault(client.name, {})
        price = machine.usd_per_hour if machine.usd_per_hour is not None else Decimal(0)
        told = known.setdefault(machine.provider_id, Told(machine, [(since, price)]))
        if told.prices[-1][1] != price and machine.usd_per_hour is not None:
            told.prices.append((self._clock.now, price))

    def ordered(self, agent: str, order: Order, offer: Offer, *, machine: Machine | None, clear: bool) -> None:
        """Check all that a launch must not break."""
        client, now = self.clients[agent], self._clock.now
        self.launches += 1
        price = offer.usd_per_hour
        self._may_act(client, Direction.UP, "an order")
        self._limits(client, price)
        self._the_offer(client, order, offer)
        self._is_wanted(client)
        self._must(order.label not in self.labels, agent, f"the label {order.label} was ordered twice")
        self._must(order.label.startswith(client.prefix), agent, f"an order under the label {order.label!r}")
        self.labels.add(order.label)
        client.orders.append(
            Ordered(now, -1 if client.taking_up else client.run_id, order.label, price, machine, clear)
        )
        if clear and machine is not None:
            self._learn(client, machine, now)

    def destroying(self, agent: str, machine: Machine) -> None:
        """Nobody's machine but the agent's own."""
        client = self.clients[agent]
        mine = (machine.label or "").startswith(client.prefix) or machine.owner == agent
        self._must(mine, agent, f"the destroy of {machine.provider_id}, {machine.owner}'s, labelled {machine.label!r}")
        self._must(client.owns, agent, "a destroy without the lease")

    def _may_act(self, client: Client, direction: Direction, what: str) -> None:
        spec, faults, agent = client.spec, self._faults(), client.name
        approved = spec.mode is Mode.APPROVE and client.taking_up
        client.approvals -= client.taking_up
        self._must(client.approvals >= 0, agent, f"{what} that nobody approved")
        self._must(spec.mode is Mode.ACT or approved, agent, f"{what} in mode {spec.mode}")
        self._must(not client.stopped, agent, f"{what} while the installation is stopped")
        pause = spec.pause
        paused = pause is not None and self._clock.now < pause.until and direction in pause.directions
        self._must(not paused, agent, f"{what} while paused")
        self._must(client.demand is not None, agent, f"{what} while demand is unknown")
        self._must(client.owns, agent, f"{what} without the lease")
        listing, hidden = getattr(faults, "listing", ""), getattr(faults, "hidden", None)
        self._must(listing != "unreadable", agent, f"{what} on a list that is unreadable")
        another = listing == "other account" and bool(self.mine(client))  # without machines any account will do
        self._must(not another, agent, f"{what} on another account's list")
        missing = [m for m in self.mine(client) if self._lacks(m, listing, hidden)]
        ids = ", ".join(m.provider_id for m in missing)
        self._must(not missing, agent, f"{what} on a list that lacks {ids}")

    def _lacks(self, machine: Machine, listing: str, hidden: str | None) -> bool:
        """Whether a list leaves out what was shown before, and nobody has asked to end."""
        settled = self._clock.now - machine.created_at >= timedelta(minutes=2)
        left_out = listing == "empty" or (listing == "lacks one" and hidden == machine.provider_id)
        return left_out and settled and not machine.ending

    def _limits(self, client: Client, price: Decimal) -> None:
        now, spec, mine = self._clock.now, client.spec, self.mine(client)
        known = {m.provider_id for m in mine}
        unsure = [
            o
            for o in client.orders
            if o.counts(now) and not o.certain and (o.machine is None or o.machine.provider_id not in known)
        ]
        per_hour = sum((m.usd_per_hour or Decimal(0) for m in mine), Decimal(0))
        per_hour += sum((o.usd_per_hour for o in unsure), Decimal(0)) + price
        budget, limits, agent = spec.budget, spec.limits, client.name
        self._must(per_hour <= budget.fleet_usd_per_hour + CENT, agent, f"{per_hour} USD/h with this order")
        count = len(mine) + len(unsure) + 1
        self._must(count <= limits.max_instances, agent, f"{count} machines of {limits.max_instances}")
        made = [o for o in client.orders if o.counts(now)]
        in_run = 0 if client.taking_up else sum(o.run_id == client.run_id for o in made) + 1
        self._must(in_run <= limits.launches_per_run, agent, f"{in_run} launches in run {client.run_id}")
        in_hour = sum(now - o.at < timedelta(hours=1) for o in made) + 1
        self._must(in_hour <= limits.launches_per_hour, agent, f"{in_hour} launches within an hour")
        if budget.fleet_usd_per_day is not None:
            tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
            hours = Decimal((tomorrow - now).total_seconds()) / 3600
            today = self.spent_today(client) + per_hour * hours
            self._must(today <= budget.fleet_usd_per_day + CENT, agent, f"{today} USD by midnight with this order")

    def _the_offer(self, client: Client, order: Order, offer: Offer) -> None:
        spec, agent = client.spec, client.name
        wanted, each = spec.fleet.vast.offers, spec.budget.usd_per_proof
        shown = (client.ever_shown if client.taking_up else client.shown).get(order.offer_id)
        self._must(shown is not None, agent, f"offer {order.offer_id} was not shown in this run")
        dearer = shown is not None and offer.usd_per_hour > shown + Decimal("0.0106")
        self._must(not dearer or client.taking_up, agent, f"{offer.usd_per_hour} USD/h, shown at {shown}")
        failed_at = client.failed_hosts.get(offer.machine_id, START - timedelta(days=1))
        self._must(self._clock.now - failed_at >= timedelta(hours=1), agent, f"host {offer.machine_id} has just failed")
        twins = [m for m in self.mine(client) if m.offer.machine_id == offer.machine_id and m.rate is None]
        self._must(not twins, agent, f"a second machine on host {offer.machine_id}")
        self._must(not wanted.gpu_names or offer.gpu_name in wanted.gpu_names, agent, f"a {offer.gpu_name}")
        most = wanted.max_usd_per_hour
        self._must(most is None or offer.usd_per_hour <= most, agent, f"{offer.usd_per_hour} USD/h for one machine")
        self._must(int(offer.machine_id) not in wanted.exclude_machines, agent, f"host {offer.machine_id}")
        self._must(not wanted.verified or offer.verified, agent, "a host that is not verified")
        if each is not None:
            table = GPU_CAP.get(offer.gpu_name, 40) * (1 + 0.6 * (offer.num_gpus - 1))
            best = max([table, *client.rates.values()])
            self._must(offer.usd_per_hour <= each * Decimal(str(best)), agent, f"{offer.usd_per_hour} USD/h per proof")

    def _is_wanted(self, client: Client) -> None:
        """Never one more while what proves for certain, and nothing but that, reaches the target."""
        spec, mine = client.spec, [m for m in self.mine(client) if not m.ending]
        wanted = float(spec.target.proofs_per_hour) if client.demand else 0.0
        enough = sum(proving(m) for m in mine) >= wanted * (1 - float(spec.target.tolerance_percent) / 100)
        self._must(not (enough and len(mine) >= spec.limits.min_instances), client.name, "an order while on target")

    # --- what the ledger is told of stops ---

    def stopping(self, agent: str, machine: Machine | None, run_id: int, by: str, stops_before: int) -> None:
        """Check all that a stop by the model must not break. Code may end what must end at any time."""
        if by != "model" or machine is None or machine.gone_at is not None:
            return
        client, now = self.clients[agent], self._clock.now
        self.stops += 1
        self._may_act(client, Direction.DOWN, "a stop")
        limits, spec = client.spec.limits, client.spec
        in_run = 0 if client.taking_up else stops_before + 1
        self._must(in_run <= limits.stops_per_run, agent, f"{in_run} stops in run {run_id}")
        self._must(now - machine.created_at >= limits.min_instance_age, agent, "a stop of a machine that is too young")
        left = [m for m in self.mine(client) if not m.ending and m is not machine]
        unsure = sum(o.counts(now) and not o.certain for o in client.orders)
        self._must(len(left) + unsure >= limits.min_instances, agent, f"a stop that leaves {len(left)} machines")
        wanted = float(spec.target.proofs_per_hour) if client.demand else 0.0
        most = sum(max(proving(m), GPU_CAP.get(m.offer.gpu_name, 40) * 2.0 * (m.rate is None)) for m in left)
        enough = most + unsure * 300 >= wanted * (1 - float(spec.target.tolerance_percent) / 100) - 0.1
        self._must(enough or proving(machine) == 0, agent, f"a stop that leaves {most} of {wanted} p/h at most")


def proving(machine: Machine) -> float:
    """Proofs per hour that it makes for certain."""
    return machine.rate or 0.0 if machine.status is MarketStatus.RUNNING else 0.0
