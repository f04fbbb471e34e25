"""Ask the ports, return one frozen Observation."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from fleetagent.agent.alarms import Alarms
from fleetagent.agent.clock import Now
from fleetagent.agent.lifecycle import Lifecycle, Look
from fleetagent.agent.subject import Subject
from fleetagent.domain.capacity import effective_target
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import Fleet
from fleetagent.domain.money import over_budget
from fleetagent.domain.observation import LaunchProblem, Observation
from fleetagent.domain.records import Lease, Pulse
from fleetagent.errors import BadResource, FleetAgentError, TryLater
from fleetagent.ports import Cluster, Ledger, Market, Runs, Worlds

OVER_BUDGET = "OverBudget"
STOP_LIFE = timedelta(seconds=10)


class Observe:
    """The facts at this moment; whatever cannot be read is unknown, with the reason."""

    def __init__(
        self, worlds: Worlds, lifecycle: Lifecycle, ledger: Ledger, runs: Runs, cluster: Cluster, now: Now
    ) -> None:
        self._alarms = Alarms(runs, now)
        self._cluster = cluster
        self._stop: tuple[datetime, str | None] | None = None
        self._worlds = worlds
        self._lifecycle = lifecycle
        self._ledger = ledger
        self._now = now

    async def __call__(
        self, subject: Subject, lease: Lease, run_id: int = 0, *, market: Market | None = None
    ) -> tuple[Observation, Pulse]:
        """Fleet and demand side by side, then the ledger's counts; `market` where something is about to be done."""
        look, demand, problem = await asyncio.gather(
            self.fleet(subject, lease, market), self.demand(subject), self.launch_problem(subject)
        )
        now = self._now()
        pulse = await self._ledger.pulse(subject.record.id, run_id, now)
        wanted, limits = subject.spec.target, subject.spec.limits
        target = effective_target(
            float(wanted.proofs_per_hour), float(wanted.tolerance_percent), limits.min_instances, demand
        )
        fleet = look.fleet
        if isinstance(fleet, Fleet):
            await self._tell_overrun(subject, fleet, pulse)
            fleet = replace(fleet, waiting=pulse.waiting)
        seen = Observation(
            at=now,
            fleet=fleet,
            demand=demand,
            target=target,
            usd_spent_today=pulse.usd_spent_today,
            open_alerts=pulse.open_alerts,
            launch_problem=problem,
            alerts=pulse.alerts,
            runway=look.runway,
            decided=tuple(d.words for d in pulse.decided),
        )
        return seen, pulse

    async def fleet(self, subject: Subject, lease: Lease, market: Market | None = None) -> Look:
        """One look at the market, by way of the lifecycle; at the one that the resource names unless told otherwise."""
        try:
            market = market or await self._worlds.market(subject.agent)
        except (BadResource, TryLater) as error:
            return Look(await self._lifecycle.unknown(subject, str(error), reason=reason_in(error, "FleetUnknown")))
        return await self._lifecycle.look(subject, lease, market)

    async def _tell_overrun(self, subject: Subject, fleet: Fleet, pulse: Pulse) -> None:
        """Caps stop no machine, so a person must know when they do not hold."""
        budget, cost, today = subject.spec.budget, fleet.usd_per_hour, pulse.usd_spent_today
        words = None
        if over_budget(budget, cost, today):
            figures = f"{cost:.2f} USD/h of {budget.fleet_usd_per_hour:.2f}, {today:.2f} USD today"
            daily = f" of {budget.fleet_usd_per_day:.2f}" if budget.fleet_usd_per_day is not None else ""
            words = f"over budget: {figures}{daily}; caps stop no machine: lower the target, or stop some"
        await self._alarms.tell(subject.record, OVER_BUDGET, words)

    async def demand(self, subject: Subject) -> Demand | DemandUnknown:
        """What the demand source says."""
        try:
            source = await self._worlds.demand(subject.agent)
            return await source.demand()
        except (BadResource, TryLater) as error:
            return DemandUnknown(str(error), reason_in(error, "DemandUnknown"))

    async def launch_problem(self, subject: Subject) -> LaunchProblem | None:
        """Why nothing can be launched: known before a machine is wanted, and seen to be mended without a launch."""
        if (stop := await self._installation_stop()) is not None:
            return LaunchProblem("InstallationStopped", f"nothing is launched or stopped: {stop}")
        try:
            await self._worlds.instance_env(subject.agent)
        except BadResource as error:
            return LaunchProblem(error.reason, str(error))
        except TryLater as error:
            return LaunchProblem("SecretUnreadable", str(error))
        return None

    async def _installation_stop(self) -> str | None:
        """As it was some seconds ago, for all agents alike; before an effect it is read afresh."""
        now = self._now()
        if self._stop is None or now - self._stop[0] >= STOP_LIFE:
            self._stop = (now, await self._cluster.installation_stop())
        return self._stop[1]


def reason_in(error: FleetAgentError, otherwise: str) -> str:
    """The word of an error that has one."""
    return error.reason if isinstance(error, BadResource) else otherwise
