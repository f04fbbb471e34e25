"""Days of a fleet's life, seeded: what is seen every five minutes, what calls for a run, what the model says to it."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from fleetagent.agent.desk import Desk
from fleetagent.agent.tools import TOOLS, Tool
from fleetagent.domain.demand import Demand
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Fleet, Instance, Offer, Phase
from fleetagent.domain.model import JsonObject, ModelRequest, Reply
from fleetagent.domain.observation import Alert, Observation, Standing
from fleetagent.domain.records import Asked
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import TryLater
from support.fakes import Line, calls, says
from support.fleets import an_instance, an_observation, an_offer

BEAT = timedelta(minutes=5)
BEATS_A_DAY = 288
START = datetime(2026, 10, 1, tzinfo=UTC)
MACHINES = 5
WANTED = 490
WAYS = {Phase.LOADING: 2, Phase.REGISTERED: 5, Phase.BENCHMARKING: 7}
"""How many beats a machine stays in a phase."""

SAID_ON_DAY_1 = tuple(
    (
        f"Message {n} of the first day: prefer hosts in the EU, never more than two on one host, and mind the price. "
        * 9
    )[:500]
    for n in (1, 2, 3)
)


@dataclass(frozen=True, slots=True)
class Chances:
    """How often something happens in a day, on average."""

    lost: float
    offline: float
    refusal: float
    alert: float
    wake: float
    feedback: float
    outage: float


BUSY = Chances(lost=11, offline=4, refusal=7, alert=3, wake=6, feedback=1, outage=1)
"""Nearly a third of the runs have something to tell."""

USUAL = Chances(lost=0.7, offline=1, refusal=0.3, alert=0.3, wake=0.5, feedback=0.3, outage=0.1)
"""By the market simulator's draws five machines of reliability 0.99 lose one in ten days; here seven times that."""

Launched = Callable[[Desk, str, str], Awaitable[None]]
"""Writes a launch into the ledger: the desk, the call's id, the machine's."""


@dataclass(frozen=True, slots=True)
class Beat:
    """Five minutes: what is seen, the news, people's words, and what the model would say if it were asked."""

    number: int
    seen: Observation
    news: tuple[str, ...]
    said: tuple[str, ...]
    script: tuple[Line, ...]


@dataclass
class Months:
    """One fleet. `launched` writes a launch down; the world has the machine from then on."""

    chances: Chances
    launched: Launched
    ends_at_once: bool = True
    """Whether the model follows the first rule of its prompt: on target, it ends without a look."""
    seed: int = 7
    fleet: dict[str, Instance] = field(default_factory=dict)
    alerts: list[tuple[int, Alert]] = field(default_factory=list)
    away_until: int = 0
    newest_id: int = 33_014_980
    beat: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311  # a mix that can be had again
        for _ in range(MACHINES):
            self._rent(Phase.PROVING)

    def beats(self, count: int) -> Iterator[Beat]:
        """So many of them, one after the other; the model's effects of one are seen in the next."""
        for self.beat in range(1, count + 1):
            news = (*self._move_on(), *self._trouble())
            yield Beat(self.beat, self.seen(), news, self._said(), tuple(self._script()))

    @property
    def now(self) -> datetime:
        """The moment of this beat."""
        return START + self.beat * BEAT

    def seen(self) -> Observation:
        """The world as it is."""
        self.alerts = [(until, alert) for until, alert in self.alerts if until > self.beat]
        seen = an_observation(*self.fleet.values(), wanted=WANTED)
        return replace(
            seen,
            at=self.now,
            fleet=Fleet(tuple(self.fleet.values()), self.now),
            demand=Demand(active=True, queued=self.random.randint(0, 90)),
            usd_spent_today=Decimal(self.beat % BEATS_A_DAY) / 100,
            open_alerts=len(self.alerts),
            alerts=tuple(alert for _, alert in self.alerts[:-6:-1]),
        )

    def tools(self) -> tuple[Tool, ...]:
        """The real ones; a launch is written down and happens here."""
        own = {"launch_instance": self._launch, "raise_alert": self._alert}
        return tuple(replace(tool, answer=own.get(tool.name, tool.answer)) for tool in TOOLS)

    async def offers(self, *_: Any) -> tuple[Offer, ...]:
        """As a market has them."""
        return tuple(an_offer(str(7000 + n), usd_per_hour=f"0.{50 + n}") for n in range(40))

    def _happens(self, a_day: float) -> bool:
        return self.random.random() < a_day / BEATS_A_DAY

    def _rent(self, phase: Phase = Phase.LOADING) -> str:
        self.newest_id += self.random.randint(1, 900)
        name = str(self.newest_id)
        self.fleet[name] = replace(an_instance(name, phase), phase_since=self.now)
        return name

    def _move_on(self) -> Iterator[str]:
        """Machines on their way get on."""
        order = [*WAYS, Phase.PROVING]
        for name, machine in list(self.fleet.items()):
            if machine.phase in WAYS and self.now - machine.phase_since >= WAYS[machine.phase] * BEAT:
                phase = order[order.index(machine.phase) + 1]
                rate = 100.0 if phase is Phase.PROVING else None
                self.fleet[name] = replace(machine, phase=phase, phase_since=self.now, measured_rate=rate)
                if phase is not Phase.BENCHMARKING:
                    yield f"machine {name} is {phase.value}"

    def _trouble(self) -> Iterator[str]:
        """Machines go, or come back from elsewhere."""
        name = self.random.choice(list(self.fleet))
        if self._happens(self.chances.lost):
            del self.fleet[name]
            yield f"machine {name} is gone"
        elif self._happens(self.chances.offline):
            yield f"machine {name} went offline"
            yield f"machine {name} is back"

    def _said(self) -> tuple[str, ...]:
        if self.beat in {20, 90, 200}:
            return (SAID_ON_DAY_1[{20: 0, 90: 1, 200: 2}[self.beat]],)
        return (f"Beat {self.beat}: go on as you do.",) if self._happens(self.chances.feedback) else ()

    def _script(self) -> Iterator[Line]:
        """What the model says, as this world is now."""
        if self.beat > self.away_until and self._happens(self.chances.outage):
            self.away_until = self.beat + self.random.randint(1, 6)
        if self.beat <= self.away_until:
            yield TryLater("the model server is away")
            return
        if self.seen().standing is Standing.BELOW:
            yield calls("plan_capacity")
            yield calls(("launch_instance", {"offer_id": "7000", "reason": "as planned: 1x RTX 5090 closes the gap"}))
            yield says('Launched one machine as planned.\n{"action": true, "state_changed": true}')
            return
        if not self.ends_at_once:
            yield calls("get_fleet")
            yield calls("plan_capacity")
        if self._happens(self.chances.refusal * 5):  # only a run that is asked can try
            yield calls("get_offers")
            yield calls(("launch_instance", {"offer_id": "7001", "reason": "cheap"}))
        if self._happens(self.chances.alert * 5):
            words = {"severity": "warning", "message": f"host of beat {self.beat} fails often: exclude it"}
            yield calls(("raise_alert", words))
        if self._happens(self.chances.wake * 5):
            yield calls(("schedule_next_check", {"minutes": 35, "reason": f"is the machine of beat {self.beat} up?"}))
        yield says(f'On target, held.\n{{"action": false, "state_changed": {str(bool(self.beat % 2)).lower()}}}')

    async def _launch(self, desk: Desk, arguments: Any, call_id: str) -> JsonObject:
        if self.seen().standing is not Standing.BELOW:
            refusal = Refusal("OnTarget", "on target already: one more machine would only cost")
            args = {"offer_id": arguments.offer_id, "reason": arguments.reason}
            asked = Asked("launch", f"{desk.run.run_id}:{call_id}", "model", args)
            await desk.services.ledger.refuse(desk.run, asked, refusal)
            return {"ok": False, "refused": {"code": refusal.code, "sentence": refusal.sentence}}
        name = self._rent()
        await self.launched(desk, call_id, name)
        return {"ok": True, "instance_id": name, "usd_per_hour": "0.500", "expected_proofs_per_hour": 120}

    async def _alert(self, desk: Desk, arguments: Any, _: str) -> JsonObject:
        alert = Alert(self.beat, "Model", arguments.severity, arguments.message)
        self.alerts.append((self.beat + self.random.randint(6, 60), alert))
        desk.alerts_raised += 1
        return {"ok": True, "id": f"alert-{alert.id}"}


SUMMARY = "Fleet\nFive prove, as planned.\nDecisions\nOne was launched for each that was lost.\n{}Open matters\nNone."


def a_good_summary(request: ModelRequest) -> Reply:
    """What a good model makes of the request: short, with all that it was told to name."""
    asked = str(request.messages[-1]["content"]).partition("Name these machines: ")[2].partition(".\n")[0]
    return says(SUMMARY.format(f"Rented: {asked}.\n" if asked else ""))


BAD_SUMMARIES: tuple[Line, ...] = (
    says(""),
    says("OK"),
    says("I'm sorry, but I can't help with that."),
    says(SUMMARY, cut_off=True),
    calls("get_fleet"),
    TryLater("too slow"),
)


def a_summary(n: int) -> Line:
    """Two of three are good."""
    return BAD_SUMMARIES[n // 3 % len(BAD_SUMMARIES)] if n % 3 == 2 else a_good_summary


def call_for(beat: Beat, say: Callable[[str, Trigger], None]) -> None:
    """Let the next run have this beat's news and words."""
    for words in beat.news:
        say(words, Trigger.EVENT)
    for words in beat.said:
        say(words, Trigger.FEEDBACK)
