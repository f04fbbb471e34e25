"""What one run has at hand while the model thinks: whom it is for, what was seen, what was shown, what was done."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fleetagent.agent.clock import Now
from fleetagent.agent.effects import Effects
from fleetagent.agent.observe import Observe
from fleetagent.agent.subject import Subject
from fleetagent.domain.facts import Facts
from fleetagent.domain.fleet import Fleet, Offer
from fleetagent.domain.observation import Observation
from fleetagent.domain.rates import with_history
from fleetagent.domain.records import AgentKey, Pulse, Run
from fleetagent.errors import BadResource, TryLater
from fleetagent.ports import Cluster, Ledger, Market, Meter, Runs, Worlds

log = logging.getLogger(__name__)

FROM_STRANGERS = "from_strangers"
"""Where a tool's result says which of its fields hold words of hosts, the market or other sources: data, no more."""


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
    meter: Meter


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
    offer_aliases: dict[str, str] = field(default_factory=dict)
    """Short names of the offers shown, by the market's id; with the run's number in them, so that none outlives it."""
    wakes_changed: int = 0
    alerts_raised: int = 0
    told: tuple[int, ...] = ()
    """Actions that waited for a person, and of which this run's observation tells what became of them."""
    tools_failed: int = 0
    """Whatever the model asked for and did not get: such a run is never quiet."""
    calls_unusable: int = 0
    """Those of them that no tool ever saw: broken, cut off, wrongly typed or of an unknown name."""
    last_unusable: str = ""

    @property
    def whose(self) -> tuple[AgentKey, int]:
        """The agent and its run, for the log."""
        return self.subject.key, self.run.run_id

    def unusable(self, because: str) -> None:
        """Count a call that can't be executed at all."""
        self.tools_failed += 1
        self.calls_unusable += 1
        self.last_unusable = because

    def show(self, *offers: Offer) -> None:
        """The model sees these offers: it may name them from now on, until the run ends."""
        for offer in offers:
            self.offers_shown[offer.offer_id] = offer
            self.offer_aliases.setdefault(offer.offer_id, f"o{self.run.run_id}-{len(self.offer_aliases) + 1}")

    def offer_named(self, name: str) -> str:
        """The market's id of a shown offer, named by that id or by its alias; what was not shown stays as it is."""
        if name in self.offers_shown:
            return name
        alias = name.strip().lower()
        return next((offer_id for offer_id, known in self.offer_aliases.items() if known == alias), name)

    async def catch_up(self) -> None:
        """Take the resource as it is by now, and the market that it names by now.

        Each action begins so: a machine must be rented where the next look will search for it.
        """
        self.subject = self.newest(self.subject)
        self.market = await market_of(self.services.worlds, self.subject)

    async def facts(self, offer_now: Offer | None, stop: str | None) -> Facts:
        """Read the world again: an action is judged by what is true now, not by what the model saw.

        The fleet is read from the very market that the action is about to use. An offer that was priced for another
        disk, or by another market, than are asked for by now is none any more.
        """
        priced_for = self.subject.spec.fleet.vast
        self.subject = self.newest(self.subject)
        if self.subject.spec.fleet.vast != priced_for:
            offer_now = None
        run = self.run
        self.seen, self.pulse = await self.services.observe(self.subject, run.lease, run.run_id, market=self.market)
        if offer_now is not None:  # with the same memory of rates as the plan's and the list's offers
            offer_now = with_history(offer_now, self.pulse.host_rates, self.pulse.kind_rates)
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
            model_tokens_today=self.pulse.model_tokens_today,
        )

    async def count_again(self) -> None:
        """Take in what an effect has changed in the ledger: the model sees its own machines when it looks next."""
        ledger, agent_id, now = self.services.ledger, self.subject.record.id, self.services.now()
        self.pulse = await ledger.pulse(agent_id, self.run.run_id, now)
        self.seen = replace(self.seen, decided=tuple(d.words for d in self.pulse.decided))
        if isinstance(self.seen.fleet, Fleet):
            self.seen = replace(
                self.seen, at=now, fleet=Fleet(await ledger.instances(agent_id), now, self.pulse.waiting)
            )


async def market_of(worlds: Worlds, subject: Subject) -> Market | None:
    """None when the market cannot be named at all; the observation says why."""
    try:
        return await worlds.market(subject.agent)
    except (BadResource, TryLater) as error:
        log.warning("%s: %s", subject.key, error)
        return None
