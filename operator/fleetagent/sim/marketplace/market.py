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
    no_such_ask,
    no_such_instance,
    not_found,
)
from fleetagent.sim.marketplace.fate import decide
from fleetagent.sim.marketplace.faults import FaultBoard
from fleetagent.sim.marketplace.hosts import Host, population
from fleetagent.sim.marketplace.machines import Machine, Order
from fleetagent.sim.marketplace.offers import Row, offer_row
from fleetagent.sim.marketplace.orders import LABEL_LATER, checked_label, read_order
from fleetagent.sim.marketplace.rises import Rises
from fleetagent.sim.marketplace.rivals import Rivals
from fleetagent.sim.marketplace.search import Query
from fleetagent.sim.marketplace.supply import Supply
from fleetagent.sim.marketplace.timeline import Step, Timeline, planned

FIRST_ACCOUNT, FIRST_CONTRACT = 412_001, 50_300_000


@dataclass(frozen=True, slots=True)
class Account:
    """Whose machines and money."""

    id: int


class Market:
    """State and rules. Machines are kept after their destroy, so that a test can ask what happened to them."""

    def __init__(self, config: MarketplaceConfig, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.draws = Draws(config.seed)
        self.board = FaultBoard(self.draws, reliable=config.reliable, initial=config.faults, wall=clock.wall)
        self.supply = Supply(population(self.draws, config.offers), self.draws, moving=config.moving)
        self.rivals = Rivals(self.supply, self.draws, reliable=config.reliable)
        self._by_key = {
            key: Account(FIRST_ACCOUNT + (0 if config.same_account else n)) for n, key in enumerate(config.api_keys)
        }
        self.accounts = tuple(dict.fromkeys(self._by_key.values()))
        self.granted_usd = {account.id: config.credit_usd for account in self.accounts}
        self.books_due = 0.0
        """When `books.settle` has something to do; 0 whenever that may have changed."""
        self.rises = Rises()
        self.machines: dict[int, Machine] = {}
        self.calls: Counter[str] = Counter()
        self.most_live = 0
        self.on_create: Callable[[Machine], None] = lambda _machine: None
        self._last_contract = FIRST_CONTRACT

    def account(self, key: str) -> Account:
        """The owner of a key."""
        if key not in self._by_key:
            raise bad_key()
        return self._by_key[key]

    def live(self, account: Account | None = None) -> list[Machine]:
        """The contracts that exist now, whatever reads show."""
        return [m for m in self.machines.values() if m.live and (account is None or m.account_id == account.id)]

    def credit_usd(self, account: Account) -> float:
        """What is left of the account's money, by the wall clock."""
        now = self.clock.market()
        spent = sum(m.usd(now, self.clock.time_scale) for m in self.machines.values() if m.account_id == account.id)
        return self.granted_usd[account.id] - spent

    def search(self, body: Mapping[str, Any], *, filtered: bool = True, price_factor: float = 1.0) -> list[Row]:
        """Offers as rows, at most 64."""
        query = Query.read(body)
        now, wall, taken = self.clock.market(), self.clock.wall(), self._taken()
        rows = [
            offer_row(
                host,
                usd_per_hour=round(self.supply.usd_per_hour(host, now) * price_factor, 4),
                disk_gb=query.disk_gb,
                bid=query.bid,
                wall_s=wall,
            )
            for host in self.supply.hosts
            if host.machine_id not in taken and self.rivals.leave(host, now)
        ]
        return query.run(rows, filtered=filtered)

    def create(
        self,
        account: Account,
        ask_id: int,
        body: Mapping[str, Any],
        *,
        price_factor: float = 1.0,
        other_gpu: bool = False,
        late_s: float = 0.0,
    ) -> Machine:
        """Rent an offer: at another price, on another GPU, or later, where a fault has it so.

        What can't start is refused; without `cancel_unavail` it becomes a stopped machine that bills its disk.
        """
        host = self.supply.by_ask(ask_id)
        if host is None:
            raise no_such_ask(ask_id, 0)
        order = read_order(body, largest_disk_gb=host.disk_gb)
        if self.credit_usd(account) <= 0:
            raise insufficient_credit()
        now = self.clock.market()
        free = host.machine_id not in self._taken() and self.rivals.free_from(host, now) <= now
        startable = free and not self.rivals.win_race(host, now)
        if not startable and order.cancel_unavail:
            raise no_such_ask(ask_id, ask_id % 3)
        if other_gpu:
            host = next(each for each in self.free_hosts() if each.gpu != host.gpu and each.disk_gb >= order.disk_gb)
        price = order.bid_usd_per_hour or self.supply.usd_per_hour(host, now) * price_factor
        intended = order.wanted if startable else "stopped"
        return self.sign(account, host, order, round(price, 4), intended=intended, late_s=late_s)

    def sign(
        self,
        account: Account,
        host: Host,
        order: Order,
        usd_per_hour: float,
        *,
        intended: str = "running",
        timeline: Timeline | None = None,
        late_s: float = 0.0,
    ) -> Machine:
        """Make the contract; without a given timeline the machine lives as its fate has it."""
        lag, begins, wall = self.board.lag, self.clock.market() + late_s, self.clock.wall()
        contract_id = self._next_contract()
        bid = order.bid_usd_per_hour
        fate = decide(
            self.draws,
            host,
            contract_id,
            image_gb=self.config.image_gb,
            reliable=self.config.reliable,
            bid_share=bid / self.supply.usd_per_hour(host, begins) if bid else None,
        )
        if timeline is None:
            up = intended == "running"
            off = Timeline([Step(begins, None), Step(begins + 2, "stopped")])
            timeline = planned(fate, begins, host.longest_s) if up else off
        machine = Machine(
            id=contract_id,
            account_id=account.id,
            host=host,
            order=order,
            fate=fate,
            prices=[(begins, usd_per_hour)],
            label=order.label,
            intended=intended,
            timeline=timeline,
            created_at=begins,
            created_wall=wall + late_s / self.clock.time_scale,
            contract_end=begins + host.longest_s,
            visible_from_wall=wall + max(lag.create_seconds, fate.create_lag_s),
            label_from_wall=wall + lag.label_seconds,
        )
        self.machines[contract_id] = machine
        self.most_live = max(self.most_live, len(self.live()))
        self.books_due = 0.0
        self.on_create(machine)
        return machine

    def _next_contract(self) -> int:
        """Numbers rise, as in a market that others rent in, too."""
        self._last_contract += self.draws.of("id", self._last_contract).randint(1, 40)
        return self._last_contract

    def free_hosts(self) -> list[Host]:
        """Hosts without a contract of ours."""
        taken = self._taken()
        return [host for host in self.supply.hosts if host.machine_id not in taken]

    def visible(self, account: Account) -> list[Machine]:
        """What a listing of this account shows now."""
        now, wall = self.clock.market(), self.clock.wall()
        return [
            machine
            for machine in self.machines.values()
            if machine.account_id == account.id and machine.visible(market_s=now, wall_s=wall)
        ]

    def owned(self, account: Account, contract_id: int) -> Machine:
        """A live machine of this account."""
        machine = self.machines.get(contract_id)
        if machine is None or not machine.live or machine.account_id != account.id:
            raise no_such_instance(contract_id)
        return machine

    def relabel(self, machine: Machine, label: object) -> None:
        """Set the label; reads may lag."""
        wall = self.clock.wall()
        machine.label_before, machine.label = machine.label_seen(wall), checked_label(label, LABEL_LATER)
        machine.label_from_wall = wall + self.board.lag.label_seconds

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

    def replan(self, machine: Machine, *steps: Step) -> None:
        """Something happens to the machine now: forget its plan."""
        machine.timeline.replan(self.clock.market(), steps)
        self.books_due = 0.0
        self.clock.stir()

    def reprice(self, machine: Machine, usd_per_hour: float) -> None:
        """From now on the GPU costs so much."""
        machine.prices.append((self.clock.market(), round(usd_per_hour, 4)))
        self.books_due = 0.0
        self.clock.stir()

    def _taken(self) -> set[int]:
        """The hosts that our own accounts hold; a stopped machine keeps its host."""
        return {machine.host.machine_id for machine in self.live()}
