"""Ask the ports, return one frozen Observation."""

import asyncio
from datetime import datetime, timedelta

from fleetagent.agent.clock import Now
from fleetagent.agent.lifecycle import Lifecycle
from fleetagent.agent.subject import Subject
from fleetagent.domain.capacity import effective_target
from fleetagent.domain.demand import Demand, DemandUnknown
from fleetagent.domain.fleet import Fleet, FleetUnknown
from fleetagent.domain.money import over_budget
from fleetagent.domain.observation import LaunchProblem, Observation
from fleetagent.domain.records import Lease, Pulse
from fleetagent.errors import BadResource, FleetAgentError, TryLater
from fleetagent.ports import Cluster, Ledger, Runs, Worlds

OVER_BUDGET = "OverBudget"
STOP_LIFE = timedelta(seconds=10)


class Observe:
    """The facts at this moment; whatever cannot be read is unknown, with the reason."""

    def __init__(
        self, worlds: Worlds, lifecycle: Lifecycle, ledger: Ledger, runs: Runs, cluster: Cluster, now: Now
    ) -> None:
        self._runs = runs
        self._cluster = cluster
        self._stop: tuple[datetime, str | None] | None = None
        self._over_budget: dict[int, bool] = {}
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
        if isinstance(fleet, Fleet):
            await self._tell_overrun(subject, fleet, pulse)
        seen = Observation(
            at=now,
            fleet=fleet,
            demand=demand,
            target=target,
            usd_spent_today=pulse.usd_spent_today,
            open_alerts=pulse.open_alerts,
            launch_problem=problem,
            alerts=pulse.alerts,
        )
        return seen, pulse

    async def fleet(self, subject: Subject, lease: Lease) -> Fleet | FleetUnknown:
        """One look at the market, by way of the lifecycle."""
        try:
            market = await self._worlds.market(subject.agent)
        except (BadResource, TryLater) as error:
            return await self._lifecycle.unknown(subject, str(error), reason=reason_in(error, "FleetUnknown"))
        return await self._lifecycle.look(subject, lease, market)

    async def _tell_overrun(self, subject: Subject, fleet: Fleet, pulse: Pulse) -> None:
        """Caps stop no machine, so a person must know when they do not hold; written when it changes."""
        agent_id, budget = subject.record.id, subject.spec.budget
        bill, today = fleet.usd_per_hour, pulse.usd_spent_today
        over = over_budget(budget, bill, today)
        if self._over_budget.get(agent_id) is over and (pulse.open_alerts > 0) is over:
            return  # another process may have told it otherwise meanwhile
        if over:
            figures = f"{bill:.2f} USD/h of {budget.fleet_usd_per_hour:.2f}, {today:.2f} USD today"
            daily = f" of {budget.fleet_usd_per_day:.2f}" if budget.fleet_usd_per_day is not None else ""
            words = f"over budget: {figures}{daily}; caps stop no machine: lower the target, or stop some"
            await self._runs.raise_alert(agent_id, 0, OVER_BUDGET, "warning", words)
        else:
            await self._runs.resolve_alerts(agent_id, OVER_BUDGET)
        self._over_budget[agent_id] = over

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
