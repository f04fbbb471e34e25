"""The market itself: accounts, offers, contracts.

Every effect of a call happens here, at once and whole; no HTTP, no waiting.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.sim.marketplace.clock import Clock
from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.draws import Draws
from fleetagent.sim.marketplace.errors import (
    bad_key,
    insufficient_credit,
    invalid_args,
    no_such_ask,
    no_such_instance,
    not_found,
)
from fleetagent.sim.marketplace.fate import decide
from fleetagent.sim.marketplace.faults import FaultBoard
from fleetagent.sim.marketplace.hosts import Host, population
from fleetagent.sim.marketplace.machines import Machine, Order
from fleetagent.sim.marketplace.offers import Row, offer_row
from fleetagent.sim.marketplace.orders import LABEL_LATER, checked_label, checked_state, read_order
from fleetagent.sim.marketplace.search import Query
from fleetagent.sim.marketplace.supply import AWAY_HOURS, HOUR_S, Supply
from fleetagent.sim.marketplace.timeline import RESTART_S, Step, Timeline, planned, running

FIRST_ACCOUNT, FIRST_CONTRACT = 412_001, 50_300_000


@dataclass(frozen=True, slots=True)
class Account:
    """Who a key belongs to."""

    id: int
    key: str


class Market:
    """State and rules. Machines are kept after their destroy, so that a test can ask what happened to them."""

    def __init__(self, config: MarketplaceConfig, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.draws = Draws(config.seed)
        self.board = FaultBoard(self.draws, reliable=config.reliable, initial=config.faults)
        self.supply = Supply(population(self.draws, config.offers), self.draws, moving=config.moving)
        self.accounts = tuple(Account(FIRST_ACCOUNT + n, key) for n, key in enumerate(config.api_keys))
        self.machines: dict[int, Machine] = {}
        self.calls: Counter[str] = Counter()
        self.most_live = 0
        self.on_create: Callable[[Machine], None] = lambda _machine: None
        self._last_contract = FIRST_CONTRACT
        self._tries: Counter[int] = Counter()
        self._lost_until: dict[int, float] = {}

    def account(self, key: str) -> Account:
        """The owner of a key."""
        for account in self.accounts:
            if account.key == key:
                return account
        raise bad_key()

    def live(self, account: Account | None = None) -> list[Machine]:
        """The contracts that exist now, whatever reads show."""
        return [m for m in self.machines.values() if m.live and (account is None or m.account_id == account.id)]

    def credit_usd(self, account: Account) -> float:
        """What is left of the account's money, by the wall clock."""
        now = self.clock.market()
        spent = sum(m.usd(now, self.clock.time_scale) for m in self.machines.values() if m.account_id == account.id)
        return self.config.credit_usd - spent

    def search(self, body: Mapping[str, Any], *, filtered: bool = True) -> list[Row]:
        """Offers as rows, at most 64."""
        query = Query.read(body)
        now, wall, taken = self.clock.market(), self.clock.wall(), self._taken()
        rows = [
            offer_row(
                h, usd_per_hour=self.supply.usd_per_hour(h, now), disk_gb=query.disk_gb, bid=query.bid, wall_s=wall
            )
            for h in self.supply.hosts
            if h.machine_id not in taken and self._free(h, now) and self.supply.for_rent(h, now)
        ]
        return query.run(rows, filtered=filtered)

    def create(self, account: Account, ask_id: int, body: Mapping[str, Any], *, price_factor: float = 1.0) -> Machine:
        """Rent an offer.

        What can't start is refused; without `cancel_unavail` it becomes a stopped machine that bills its disk.
        """
        host = self.supply.by_ask(ask_id)
        if host is None:
            raise no_such_ask(ask_id, 0)
        order = read_order(body, largest_disk_gb=host.disk_gb)
        if self.credit_usd(account) <= 0:
            raise insufficient_credit()
        now = self.clock.market()
        self._tries[ask_id] += 1
        startable = host.machine_id not in self._taken() and self._free(host, now) and not self._loses_race(host, now)
        if not startable and order.cancel_unavail:
            raise no_such_ask(ask_id, ask_id)
        price = order.bid_usd_per_hour or self.supply.usd_per_hour(host, now) * price_factor
        intended = order.wanted if startable else "stopped"
        return self.sign(account, host, order, round(price, 4), intended=intended)

    def sign(
        self,
        account: Account,
        host: Host,
        order: Order,
        usd_per_hour: float,
        *,
        intended: str = "running",
        timeline: Timeline | None = None,
    ) -> Machine:
        """Make the contract; without a given timeline the machine lives as its fate has it."""
        now, wall, lag = self.clock.market(), self.clock.wall(), self.board.lag
        contract_id = self._last_contract = self._last_contract + self.draws.of("id", self._last_contract).randint(
            1, 40
        )
        fate = decide(self.draws, host, contract_id, image_gb=self.config.image_gb, reliable=self.config.reliable)
        if timeline is None:
            up = intended == "running"
            timeline = (
                planned(fate, now, host.longest_s) if up else Timeline([Step(now, None), Step(now + 2, "stopped")])
            )
        machine = Machine(
            id=contract_id,
            account_id=account.id,
            host=host,
            order=order,
            fate=fate,
            usd_per_hour=usd_per_hour,
            label=order.label,
            intended=intended,
            timeline=timeline,
            created_at=now,
            created_wall=wall,
            contract_end=now + host.longest_s,
            visible_from_wall=wall + max(lag.create_seconds, fate.create_lag_s),
            label_from_wall=wall + lag.label_seconds,
        )
        self.machines[contract_id] = machine
        self.most_live = max(self.most_live, len(self.live()))
        self.on_create(machine)
        return machine

    def free_hosts(self) -> list[Host]:
        """Hosts without a contract of ours."""
        taken = self._taken()
        return [host for host in self.supply.hosts if host.machine_id not in taken]

    def visible(self, account: Account) -> list[Machine]:
        """What a listing of this account shows now."""
        wall = self.clock.wall()
        return [m for m in self.machines.values() if m.account_id == account.id and m.visible(wall)]

    def update(self, account: Account, contract_id: int, body: Mapping[str, Any]) -> Machine:
        """Set the label, or ask for another state."""
        machine = self.owned(account, contract_id)
        if not {"label", "state"} & set(body):
            raise invalid_args("nothing to change: send label or state")
        if "label" in body:
            machine.label = checked_label(body["label"], LABEL_LATER)
        if "state" in body:
            self._wish(machine, checked_state(body["state"]))
        return machine

    def destroy(self, account: Account, contract_id: int) -> None:
        """End the contract; to destroy what is gone is an error with two names."""
        machine = self.machines.get(contract_id)
        if machine is None or not machine.live or machine.account_id != account.id:
            raise (not_found if contract_id % 2 else no_such_instance)(contract_id)
        self.end(machine)

    def end(self, machine: Machine) -> None:
        """The contract stops billing now, and the offer comes back; reads may lag."""
        machine.destroyed_at, machine.destroyed_wall = self.clock.market(), self.clock.wall()
        lag_s = max(self.board.lag.destroy_seconds, machine.fate.destroy_lag_s)
        machine.visible_until_wall = machine.destroyed_wall + lag_s
        self.clock.stir()

    def owned(self, account: Account, contract_id: int) -> Machine:
        """A live machine of this account."""
        machine = self.machines.get(contract_id)
        if machine is None or not machine.live or machine.account_id != account.id:
            raise no_such_instance(contract_id)
        return machine

    def replan(self, machine: Machine, *steps: Step) -> None:
        """Something happens to the machine now: forget its plan."""
        machine.timeline.replan(self.clock.market(), steps)
        self.clock.stir()

    def _wish(self, machine: Machine, state: str) -> None:
        now = self.clock.market()
        if state == "running" and now >= machine.contract_end:
            raise invalid_args("the contract has ended")
        if state == machine.intended:
            return
        machine.intended = state
        if state == "stopped":
            self.replan(machine, Step(now, "exited", "stopped by user"))
        else:
            self.replan(machine, Step(now, "loading"), *running(machine.fate, now + RESTART_S, machine.contract_end))

    def _taken(self) -> set[int]:
        """The hosts that our own accounts hold; a stopped machine keeps its host."""
        return {machine.host.machine_id for machine in self.live()}

    def _free(self, host: Host, now: float) -> bool:
        """Not with other people; a reliable market keeps what it once offered."""
        return now >= self._lost_until.get(host.machine_id, 0.0) and (
            self.config.reliable or self.supply.for_rent(host, now)
        )

    def _loses_race(self, host: Host, now: float) -> bool:
        """Somebody else was faster, more often so for an offer that has stood for long."""
        if self.config.reliable:
            return False
        chance = 0.05 + 0.05 * min(1.0, self.supply.listed_for_s(host, now) / (2 * HOUR_S))
        if self.draws.of("race", host.ask_id, self._tries[host.ask_id]).random() >= chance:
            return False
        self._lost_until[host.machine_id] = now + AWAY_HOURS * HOUR_S
        return True
