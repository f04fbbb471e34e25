"""The states of one machine over market time: planned at create, cut and continued by what people do to it. Pure."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from fleetagent.sim.marketplace import fate as fates
from fleetagent.sim.marketplace.fate import Fate

GPU_BILLED = frozenset({"running", "frozen", "rebooting", "restarting", "recycling"})
NOTHING_BILLED = frozenset({"offline"})
RELEASED = frozenset({"stopped", "exited"})
RESTART_S = 25.0


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

    def spent(self, until: float, *, gpu_usd_per_hour: float, disk_usd_per_hour: float) -> float:
        """USD over market time: the GPU while active, the disk in every state but offline."""
        usd = 0.0
        ends = [step.at for step in self.steps[1:]] + [until]
        for step, end in zip(self.steps, ends, strict=True):
            hours = max(0.0, min(end, until) - step.at) / 3600
            if step.status in NOTHING_BILLED:
                continue
            usd += hours * (disk_usd_per_hour + (gpu_usd_per_hour if step.status in GPU_BILLED else 0.0))
        return usd


def planned(fate: Fate, created_at: float, longest_s: float) -> Timeline:
    """A life from create to the end of the contract, as its fate has it."""
    provisioned = created_at + fate.provisioning_s
    loading = provisioned + 2.0
    loaded = loading + fate.loading_s
    steps = [Step(created_at, None), Step(provisioned, "created")]
    if fate.start == fates.OCI_ERROR:
        steps.append(Step(loading, "created", OCI_MESSAGE))
        return Timeline(steps)
    steps.append(Step(loading, "loading", MANIFEST_MESSAGE if fate.start == fates.STUCK else None))
    match fate.start:
        case fates.STUCK:
            return Timeline(steps)
        case fates.OFFLINE:
            steps.append(Step(loading + fate.loading_s / 2, "offline"))
            return Timeline(steps)
        case fates.EXITED:
            steps.append(Step(loaded, "exited"))
            return Timeline(steps)
        case _:
            steps += running(fate, loaded, created_at + longest_s)
            return Timeline(steps)


def running(fate: Fate, since: float, contract_end: float) -> list[Step]:
    """From running on: losses and returns, until the contract ends."""
    steps = [Step(since, "running")]
    at = since
    for loss in fate.losses:
        at += loss.after_s
        steps.append(Step(at, "offline"))
        if loss.away_s is None:
            break
        at += loss.away_s
        steps.append(Step(at, "running"))
    return [*(step for step in steps if step.at < contract_end), Step(contract_end, "stopped", "contract has ended")]


OCI_MESSAGE = (
    "Error response from daemon: failed to create task for container: failed to create shim task: "
    "OCI runtime create failed: runc create failed: unable to start container process: error during container init"
)
MANIFEST_MESSAGE = "Error response from daemon: manifest unknown: manifest unknown"
