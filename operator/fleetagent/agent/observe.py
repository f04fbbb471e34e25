"""Ask the ports, return one frozen Observation."""

import asyncio

from fleetagent.agent.clock import Now
from fleetagent.agent.lifecycle import Lifecycle
from fleetagent.agent.subject import Subject
from fleetagent.domain.capacity import effective_target
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import Fleet, FleetUnknown
from fleetagent.domain.observation import LaunchProblem, Observation
from fleetagent.domain.records import Lease, Pulse
from fleetagent.errors import BadResource, FleetAgentError, TryLater
from fleetagent.ports import Ledger, Worlds


class Observe:
    """The facts at this moment; whatever cannot be read is unknown, with the reason."""

    def __init__(self, worlds: Worlds, lifecycle: Lifecycle, ledger: Ledger, now: Now) -> None:
        self._worlds = worlds
        self._lifecycle = lifecycle
        self._ledger = ledger
        self._now = now

    async def __call__(self, subject: Subject, lease: Lease, run_id: int = 0) -> tuple[Observation, Pulse]:
        """Fleet and demand side by side, then the ledger's counts."""
        fleet, demand, problem = await asyncio.gather(
            self.fleet(subject, lease), self.demand(subject), self.launch_problem(subject)
        )
        now = self._now()
        pulse = await self._ledger.pulse(subject.record.id, run_id, now)
        wanted, limits = subject.spec.target, subject.spec.limits
        target = effective_target(
            float(wanted.proofs_per_hour), float(wanted.tolerance_percent), limits.min_instances, demand
        )
        return Observation(now, fleet, demand, target, pulse.usd_spent_today, pulse.open_alerts, problem), pulse

    async def fleet(self, subject: Subject, lease: Lease) -> Fleet | FleetUnknown:
        """One look at the market, by way of the lifecycle."""
        try:
            market = await self._worlds.market(subject.agent)
        except (BadResource, TryLater) as error:
            return await self._lifecycle.unknown(subject, str(error), reason=reason_in(error, "FleetUnknown"))
        return await self._lifecycle.look(subject, lease, market)

    async def demand(self, subject: Subject) -> Demand | DemandUnknown:
        """What the demand source says."""
        try:
            source = await self._worlds.demand(subject.agent)
            return await source.demand()
        except (BadResource, TryLater) as error:
            return DemandUnknown(str(error), reason_in(error, "DemandUnknown"))

    async def launch_problem(self, subject: Subject) -> LaunchProblem | None:
        """What a new machine would lack: known before one is wanted, and seen to be mended without a launch."""
        try:
            await self._worlds.instance_env(subject.agent)
        except BadResource as error:
            return LaunchProblem(error.reason, str(error))
        except TryLater as error:
            return LaunchProblem("SecretUnreadable", str(error))
        return None


def reason_in(error: FleetAgentError, otherwise: str) -> str:
    """The word of an error that has one."""
    return error.reason if isinstance(error, BadResource) else otherwise
