"""What is asked of a machine that exists, or befalls it: stop, start, reboot, outbid, a host that comes and goes."""

from fleetagent.sim.marketplace.errors import insufficient_credit, invalid_args
from fleetagent.sim.marketplace.machines import Machine
from fleetagent.sim.marketplace.market import Account, Market
from fleetagent.sim.marketplace.timeline import RESTART_S, Step, restarted, running

AWAY = frozenset({"offline", "unknown"})
DONE = "instance state changed"
QUEUED = "state change queued"
RECYCLING_S = 5.0


def set_state(market: Market, account: Account, machine: Machine, state: str, *, queued_s: float | None = None) -> str:
    """Stop it or start it, and what the market says to that; a start that is `queued_s` happens so much later."""
    if state == machine.intended:
        return DONE
    if state == "stopped":
        stop(market, machine, "stopped by user")
        return DONE
    now = market.clock.market()
    if now >= machine.contract_end:
        raise invalid_args("the contract has ended")
    if market.credit_usd(account) <= 0:
        raise insufficient_credit()
    starts = now + queued_s if queued_s is not None else market.rivals.free_from(machine.host, now)
    machine.intended = "running"
    waiting = [Step(now, machine.status_at(now))] if starts > now else []
    market.replan(machine, *waiting, *restarted(machine.fate, starts, machine.contract_end))
    return QUEUED if waiting else DONE


def stop(market: Market, machine: Machine, because: str) -> None:
    """Give the GPU back and keep the disk, which bills on; a host that is away hears of it when it is back."""
    now = market.clock.market()
    machine.intended = "stopped"
    status = machine.status_at(now)
    word = status if status in AWAY else ("exited", "stopped")[machine.id % 2]
    market.replan(machine, Step(now, word, because))


def extend(market: Market, machine: Machine, usd_per_hour: float) -> None:
    """Let the contract go on for as long again, at another price from its present end on."""
    machine.next_price = (machine.contract_end, usd_per_hour)
    old_end, machine.contract_end = machine.contract_end, machine.contract_end + machine.host.longest_s
    machine.timeline.extend(old_end, machine.contract_end)
    market.books_due = 0.0
    market.clock.stir()


def reboot(market: Market, machine: Machine) -> None:
    """Stop and start the container in place; one that is not up stays as it is."""
    now = market.clock.market()
    if machine.status_at(now) == "running":
        up_again = running(machine.fate, now + RESTART_S, machine.contract_end)
        market.replan(machine, Step(now, "rebooting"), *up_again)


def recycle(market: Market, machine: Machine) -> None:
    """Make the container anew from its image, on the same GPU."""
    now = market.clock.market()
    if machine.intended == "running" and machine.status_at(now) not in AWAY:
        market.replan(
            machine, Step(now, "recycling"), *restarted(machine.fate, now + RECYCLING_S, machine.contract_end)
        )


def take_away(market: Market, machine: Machine, status: str, seconds: float | None) -> None:
    """Send it offline, or outbid it, for so many market seconds; None: for good."""
    now = market.clock.market()
    back = [] if seconds is None else running(machine.fate, now + seconds, machine.contract_end)
    market.replan(machine, Step(now, status), *back)


def flap(market: Market, machine: Machine, status: str, *, every_s: float, times: int) -> None:
    """Let it change between `running` and another status; it ends up running."""
    now = market.clock.market()
    words = (status, "running")
    steps = [Step(now + n * every_s, words[n % 2]) for n in range(2 * times - 1)]
    market.replan(machine, *steps, *running(machine.fate, now + (2 * times - 1) * every_s, machine.contract_end))
