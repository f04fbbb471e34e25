"""The states of one machine over market time: planned at create, cut and continued by what people do to it. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from fleetagent.sim.marketplace import fate as fates
from fleetagent.sim.marketplace.fate import Fate

GPU_BILLED = frozenset({"running", "frozen", "rebooting", "restarting", "recycling"})
NOTHING_BILLED = frozenset({"offline"})
RESTART_S = 25.0
PROVISIONED_TO_LOADING_S = 2.0

Prices = Sequence[tuple[float, float]]
"""From which market second on the GPU costs how many USD per hour."""


@dataclass(frozen=True, slots=True)
class Step:
    """From `at` on, the machine is seen like this; `msg` None means that the status speaks for itself."""

    at: float
    status: str | None
    msg: str | None = None


@dataclass(slots=True)
class Timeline:
    """The steps of a machine, in order. What lies in the future is a plan and may be replaced."""

    steps: list[Step] = field(default_factory=list)

    def at(self, market_s: float) -> Step:
        """How the machine is seen at a moment after its create."""
        return self.steps[max(0, bisect_right(self.steps, market_s, key=lambda step: step.at) - 1)]

    def next_change(self, market_s: float) -> float:
        """When the next planned step comes; infinity when there is none."""
        return next((step.at for step in self.steps if step.at > market_s), float("inf"))

    def replan(self, market_s: float, steps: Iterable[Step]) -> None:
        """Forget the plan from now on and follow these steps."""
        self.steps = [step for step in self.steps if step.at <= market_s] + list(steps)

    def extend(self, old_end: float, new_end: float) -> None:
        """The contract ends later than planned."""
        self.steps = [step if step.at < old_end else replace(step, at=new_end) for step in self.steps]

    def spent(self, until: float, *, gpu_prices: Prices, disk_usd_per_hour: float) -> float:
        """USD over market time: the GPU while active, the disk in every state but offline."""
        usd = 0.0
        ends = [step.at for step in self.steps[1:]] + [until]
        for step, step_end in zip(self.steps, ends, strict=True):
            end = min(step_end, until)
            if end <= step.at or step.status in NOTHING_BILLED:
                continue
            usd += (end - step.at) / 3600 * disk_usd_per_hour
            if step.status in GPU_BILLED:
                usd += _gpu_usd(gpu_prices, step.at, end)
        return usd


def _gpu_usd(prices: Prices, start: float, end: float) -> float:
    ends = [since for since, _ in prices[1:]] + [end]
    return sum(
        max(0.0, min(end, until) - max(start, since)) / 3600 * usd_per_hour
        for (since, usd_per_hour), until in zip(prices, ends, strict=True)
    )


def planned(fate: Fate, created_at: float, longest_s: float) -> Timeline:
    """A life from create to the end of the contract, as its fate has it."""
    provisioned = created_at + fate.provisioning_s
    loading = provisioned + PROVISIONED_TO_LOADING_S
    loaded = loading + fate.loading_s
    steps = [Step(created_at, None), Step(provisioned, "created")]
    if fate.start == fates.OCI_ERROR:
        return Timeline([*steps, Step(loading, "created", fate.complaint)])
    steps.append(Step(loading, "loading", fate.complaint))
    match fate.start:
        case fates.STUCK:
            pass
        case fates.OFFLINE | fates.UNKNOWN:
            steps.append(Step(loading + fate.loading_s / 2, fate.start))
        case fates.EXITED:
            steps.append(Step(loaded, "exited"))
        case _:
            steps += running(fate, loaded, created_at + longest_s)
    return Timeline(steps)


def running(fate: Fate, since: float, contract_end: float) -> list[Step]:
    """From running on: losses and returns, until the contract ends."""
    steps = [Step(since, "running")]
    at = since
    for loss in fate.losses:
        at += loss.after_s
        steps.append(Step(at, loss.status))
        if loss.away_s is None:
            break
        at += loss.away_s
        steps.append(Step(at, "running"))
    return [*(step for step in steps if step.at < contract_end), Step(contract_end, "stopped", "contract has ended")]


def restarted(fate: Fate, at: float, contract_end: float) -> list[Step]:
    """A container that starts once more on its host: what could not run before can't now."""
    loaded = at + RESTART_S
    match fate.start:
        case fates.OCI_ERROR:
            return [Step(at, "created", fate.complaint)]
        case fates.STUCK:
            return [Step(at, "loading", fate.complaint)]
        case fates.EXITED:
            return [Step(at, "loading"), Step(loaded, "exited")]
        case _:
            return [Step(at, "loading"), *running(fate, loaded, contract_end)]
