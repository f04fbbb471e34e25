"""What happens by itself at an hour that money or a contract sets: no credit, the contract's end, two days later."""

from collections.abc import Iterator

from fleetagent.sim.marketplace.machines import Machine
from fleetagent.sim.marketplace.market import Account, Market
from fleetagent.sim.marketplace.wishes import stop

KEPT_AFTER_END_S = 48 * 3600.0
SHORTEST_LOOK_S = 1.0
NEVER = float("inf")


def settle(market: Market) -> None:
    """Do what is due. Cheap when nothing is, so every call may begin with it."""
    if market.clock.market() < market.books_due:
        return
    for machine in market.live():
        _prices_and_ends(market, machine)
    for account in market.accounts:
        if market.credit_usd(account) <= 0:
            _out_of_money(market, account)
    market.books_due = _next_due(market)


def set_credit(market: Market, account: Account, credit_usd: float) -> None:
    """Let the account have so much from now on: somebody paid, or the money is gone."""
    market.granted_usd[account.id] += credit_usd - market.credit_usd(account)
    market.books_due = 0.0
    settle(market)
    market.clock.stir()


def _prices_and_ends(market: Market, machine: Machine) -> None:
    now = market.clock.market()
    if machine.next_price is not None and now >= machine.next_price[0]:
        market.reprice(machine, machine.next_price[1])
        machine.next_price = None
    if now >= machine.contract_end:
        machine.intended = "stopped"
    if now >= machine.contract_end + KEPT_AFTER_END_S:
        market.end(machine)


def _out_of_money(market: Market, account: Account) -> None:
    """Everything stops, disks bill on, and the GPUs go to others."""
    for machine in market.live(account):
        if machine.intended == "running":
            stop(market, machine, "account out of credit")
            market.rivals.take(machine.host, market.clock.market())


def _next_due(market: Market) -> float:
    """No later than the next hour at which something is due: at most everything that exists bills until then."""
    now = market.clock.market()
    hours = [hour for machine in market.live() for hour in _hours(machine) if hour > now]
    return min([*hours, *(_broke_at(market, account, now) for account in market.accounts)], default=NEVER)


def _hours(machine: Machine) -> Iterator[float]:
    if machine.next_price is not None:
        yield machine.next_price[0]
    yield machine.contract_end
    yield machine.contract_end + KEPT_AFTER_END_S


def _broke_at(market: Market, account: Account, now: float) -> float:
    up = [machine for machine in market.live(account) if machine.intended == "running"]
    usd_per_hour = sum(machine.all_in_usd_per_hour for machine in market.live(account))
    if not up or not usd_per_hour:
        return NEVER
    hours = market.credit_usd(account) / usd_per_hour * market.clock.time_scale  # bills count hours of the wall clock
    return now + max(SHORTEST_LOOK_S, hours * 3600)
