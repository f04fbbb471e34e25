"""What will happen to a machine, drawn when it is rented: how long it loads, whether it starts, when it is lost.

Everything comes from the seed and the contract (or, for what belongs to the hardware, the host): other requests don't
change it.
"""

from dataclasses import dataclass

from fleetagent.sim.marketplace.draws import Draws, lognormal
from fleetagent.sim.marketplace.hosts import Host
from fleetagent.sim.marketplace.supply import HOUR_S

PARAMETERS_GB = 78.0
LOSS_HORIZON_H = 60 * 24
OUTBIDS = 50

RUNS = "runs"
STUCK = "stuck"  # never leaves loading
EXITED = "exited"  # ends right after it was loaded
OCI_ERROR = "oci_error"  # stays created
OFFLINE = "offline"  # the host goes while the image loads
UNKNOWN = "unknown"  # the same, and it is not known where to
DEAD = "dead"  # running, and nobody in it


PULL_COMPLAINTS = (
    "Error response from daemon: manifest unknown: manifest unknown",
    "Error response from daemon: pull access denied, repository does not exist or may require 'docker login'",
    "Error response from daemon: unauthorized: authentication required",
    None,  # it just pulls for ever
)
OCI_COMPLAINT = (
    "Error response from daemon: failed to create task for container: failed to create shim task: "
    "OCI runtime create failed: runc create failed: unable to start container process: error during container init"
)


@dataclass(frozen=True, slots=True)
class Loss:
    """The host disappears while the machine runs, or a higher bid takes it; None means for good."""

    after_s: float
    """Running time before it."""
    away_s: float | None
    status: str = "offline"


@dataclass(frozen=True, slots=True)
class Fate:
    """All durations in market seconds, all rates in proofs per hour."""

    start: str
    provisioning_s: float
    loading_s: float
    parameters_s: float
    benchmark_s: float
    rate: float
    losses: tuple[Loss, ...]
    telemetry_gap: bool
    """The host reports zeros for its load."""
    complaint: str | None
    """What the host says when the machine does not start."""
    create_lag_s: float
    """Wall seconds before reads show it, and before they stop showing it."""
    destroy_lag_s: float


def decide(
    draws: Draws, host: Host, contract_id: int, *, image_gb: float, reliable: bool, bid_share: float | None = None
) -> Fate:
    """Draw one fate. `reliable` leaves the plan and the spread of the hardware, and removes every mishap.

    `bid_share` is a bid as a share of the price on demand: the lower, the more often others bid more.
    """
    pull = pull_mbs(draws, host, reliable=reliable)
    loading = draws.of("loading", contract_id)
    cached, pause_s = loading.random() < 0.25, loading.uniform(10, 40)
    lag = draws.of("lag", contract_id)
    start, losses = RUNS, tuple[Loss, ...]()
    if not reliable:
        start = _start(draws, host, contract_id)
        losses = _losses(draws, host, contract_id) if bid_share is None else _outbid(draws, contract_id, bid_share)
    return Fate(
        start=start,
        provisioning_s=loading.uniform(1, 4),
        loading_s=loading.uniform(20, 60) if cached else image_gb * 1000 / pull + pause_s,
        parameters_s=PARAMETERS_GB * 1000 / pull,
        benchmark_s=draws.of("benchmark", contract_id).uniform(28, 40) * 60,
        rate=measured_rate(draws, host),
        losses=losses,
        telemetry_gap=not reliable and draws.of("telemetry", host.machine_id).random() < 0.10,
        complaint=_complaint(draws, contract_id, start),
        create_lag_s=0.0 if reliable else lag.uniform(0, 3),
        destroy_lag_s=0.0 if reliable else lag.uniform(0, 3),
    )


def pull_mbs(draws: Draws, host: Host, *, reliable: bool) -> float:
    """MB/s from the outside; `inet_down` predicts it badly. Some hosts are shaped to almost nothing."""
    source = draws.of("pull", host.machine_id)
    healthy, shaped = lognormal(source, 45, 0.35), source.random() < 0.15
    if reliable:
        return max(30.0, healthy)
    return source.uniform(1, 16) if shaped else healthy


def measured_rate(draws: Draws, host: Host) -> float:
    """What the benchmark of this hardware shows, every time: its typical rate, and its own deviation."""
    source = draws.of("rate", host.machine_id, host.gpu.name, host.num_gpus)
    return round(lognormal(source, host.expected_rate, 0.15), 2)


def _start(draws: Draws, host: Host, contract_id: int) -> str:
    source = draws.of("start", contract_id)
    chance = source.random()
    if chance < 0.03:
        return STUCK
    if chance < 0.05:
        return source.choice((EXITED, OCI_ERROR))
    if chance < 0.06:
        return source.choice((OFFLINE, UNKNOWN))
    if source.random() < min(0.5, 0.02 + 3 * (1 - host.reliability)):
        return source.choice((EXITED, DEAD))
    return RUNS


def _complaint(draws: Draws, contract_id: int, start: str) -> str | None:
    if start == OCI_ERROR:
        return OCI_COMPLAINT
    return draws.of("complaint", contract_id).choice(PULL_COMPLAINTS) if start == STUCK else None


def _outbid(draws: Draws, contract_id: int, bid_share: float) -> tuple[Loss, ...]:
    """Stopped by higher bids, and resumed by itself when they are gone. The host itself stays, for simplicity."""
    source = draws.of("outbid", contract_id)
    per_hour = 0.4 * max(0.05, 1 - bid_share)
    return tuple(
        Loss(source.expovariate(per_hour) * HOUR_S, source.uniform(5, 120) * 60, "stopped") for _ in range(OUTBIDS)
    )


def _losses(draws: Draws, host: Host, contract_id: int) -> tuple[Loss, ...]:
    source = draws.of("losses", contract_id)
    per_hour = (1 - host.reliability) / 12
    losses: list[Loss] = []
    hours = 0.0
    while True:
        between_h = source.expovariate(per_hour)
        hours += between_h
        if hours > LOSS_HORIZON_H:
            return tuple(losses)
        returns = source.random() < 0.5
        losses.append(Loss(between_h * HOUR_S, source.uniform(2, 30) * 60 if returns else None))
        if not returns:
            return tuple(losses)
