"""What one run has at hand while the model thinks: whom it is for, what was seen, what was shown, what was done."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fleetagent.agent.clock import Now
from fleetagent.agent.effects import Effects
from fleetagent.agent.observe import Observe
from fleetagent.agent.subject import Subject
from fleetagent.domain.facts import Facts
from fleetagent.domain.fleet import Fleet, Offer
from fleetagent.domain.observation import Observation
from fleetagent.domain.records import Pulse, Run
from fleetagent.ports import Cluster, Ledger, Market, Runs, Worlds


@dataclass(frozen=True, slots=True)
class Secret:
    """A fresh random token, and the hash by which the database knows it."""

    token: str = field(repr=False)
    hash: str


@dataclass(frozen=True, slots=True)
class Services:
    """What tools work with; the same for all runs."""

    worlds: Worlds
    runs: Runs
    ledger: Ledger
    cluster: Cluster
    effects: Effects
    observe: Observe
    now: Now
    new_secret: Callable[[], Secret]
    worker_url: str | None
    """The public base that machines are given, without a trailing slash; None: launches are refused."""


@dataclass(slots=True)
class Desk:
    """The state of one run. It ends with the run; whatever must last is in the database."""

    subject: Subject
    run: Run
    services: Services
    seen: Observation
    pulse: Pulse
    market: Market | None
    newest: Callable[[Subject], Subject]
    """The same subject with the resource as it is now: somebody may hold the agent back while it thinks."""
    offers_shown: dict[str, Offer] = field(default_factory=dict)
    wakes_changed: int = 0
    alerts_raised: int = 0
    tools_failed: int = 0
    """Whatever the model asked for and did not get: such a run is never quiet."""
    calls_unusable: int = 0
    """Those of them that no tool ever saw: broken, cut off, wrongly typed or of an unknown name."""
    last_unusable: str = ""

    def unusable(self, because: str) -> None:
        """Count a call that can't be executed at all."""
        self.tools_failed += 1
        self.calls_unusable += 1
        self.last_unusable = because

    async def facts(self, offer_now: Offer | None, stop: str | None) -> Facts:
        """Read the world again: an action is judged by what is true now, not by what the model saw."""
        self.subject = self.newest(self.subject)
        self.seen, self.pulse = await self.services.observe(self.subject, self.run.lease, self.run.run_id)
        return Facts(
            now=self.services.now(),
            spec=self.subject.spec,
            fleet=self.seen.fleet,
            demand=self.seen.demand,
            target=self.seen.target,
            offers_shown=dict(self.offers_shown),
            offer_now=offer_now,
            hosts_excluded=self.pulse.hosts_excluded,
            launches_this_run=self.pulse.launches_this_run,
            launches_last_hour=self.pulse.launches_last_hour,
            stops_this_run=self.pulse.stops_this_run,
            usd_spent_today=self.pulse.usd_spent_today,
            installation_stop=stop,
            workers_can_report=self.services.worker_url is not None,
        )

    async def count_again(self) -> None:
        """Take in what an effect has changed in the ledger: the model sees its own machines when it looks next."""
        ledger, agent_id, now = self.services.ledger, self.subject.record.id, self.services.now()
        self.pulse = await ledger.pulse(agent_id, self.run.run_id, now)
        if isinstance(self.seen.fleet, Fleet):
            self.seen = replace(self.seen, at=now, fleet=Fleet(await ledger.instances(agent_id), now))
