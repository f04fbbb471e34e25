"""A run on the real client of the market whose every text a stranger wrote, and all the places where text comes out."""

import json
import logging
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import httpx

from fleetagent.adapters.demand.prometheus import PrometheusSource
from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.desk import Secret, Services
from fleetagent.agent.effects import Effects
from fleetagent.agent.lifecycle import Lifecycle
from fleetagent.agent.observe import Observe
from fleetagent.agent.subject import Subject
from fleetagent.agent.tools import TOOLS
from fleetagent.agent.turn import Ended
from fleetagent.domain.records import Action, Lease
from fleetagent.domain.settle import SettleLimits
from fleetagent.domain.status import Health, findings
from support.fakes import FakeWorlds, QuietCluster, StrictModel, calls, says
from support.fleets import NOW
from support.hostile.books import Books
from support.manifests import a_fleet_agent
from support.memory import Memory
from support.rehearsal import turn_on
from support.vast import a_machine_row, a_market, a_page, an_offer_row

PREFIX = "fa/0123456789ab/"
CALLS = (
    calls("get_fleet"),
    calls("get_demand"),
    calls("get_offers"),
    calls("plan_capacity"),
    calls(("launch_instance", {"offer_id": "4711", "reason": "as planned"})),
    calls(("stop_instance", {"instance_id": "50300001", "reason": "as planned"})),
    says(),
)


class Diary(Memory):
    """The memory of conversations and runs; the ledger is the books'."""

    async def resolve_alerts(self, agent_id: int, code: str) -> None:
        del agent_id, code


class Ledger(Books):
    """The books, as far as a whole run needs them."""

    async def actions(self, agent_id: int, run_id: int) -> tuple[Action, ...]:
        deeds = [d for d in self.of[agent_id].deeds if d.run_id == run_id]
        reasons = ((d, str(d.args.get("reason", ""))) for d in deeds)
        return tuple(Action(d.id, run_id, d.kind, d.state, d.label, None, None, reason) for d, reason in reasons)


@dataclass
class Strangers:
    """Whoever answers us. `words` stand in every text field that a host, the market or a source fills."""

    words: str
    broken: bool = False
    """Whether market and demand answer with errors, whose words are theirs too."""
    gpu: str | None = None
    """The name of a GPU that the market says: it is no word, but what was rented. None: the words."""
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """The market's HTTP API, as far as a run needs it."""
        path = request.url.path
        self.asked.append((request.method, path, request.content.decode()))
        if path.endswith("/query"):
            error = {"status": "error", "errorType": "bad_data", "error": self.words}
            return httpx.Response(400, content=json.dumps(error))
        if self.broken and path.endswith("/instances/"):
            return httpx.Response(500, content=json.dumps({"success": False, "error": self.words, "msg": self.words}))
        if request.method in {"PUT", "DELETE"}:
            return httpx.Response(400, content=json.dumps({"success": False, "error": self.words, "msg": self.words}))
        return httpx.Response(200, content=json.dumps(self._answer(path)))

    def _answer(self, path: str) -> Any:
        if path.endswith("/users/current/"):
            return {"id": 7, "credit": 100.0, "email": self.words, "username": self.words}
        if path.endswith("/pending-price-increases/"):
            return {"success": True, "pending_price_increases": []}
        if path.endswith("/bundles/"):
            named = {"geolocation": self.words, "cpu_name": self.words, "hosting_type": self.words}
            odd = an_offer_row(id=4712, ask_contract_id=4712, machine_id=98, gpu_name=self.gpu or self.words, **named)
            return {"success": True, "offers": [an_offer_row(**named), odd]}
        return a_page(*self.machines())

    def machines(self) -> list[dict[str, Any]]:
        """Ours, one of them with a GPU of a made-up name, one that its host has stopped; and other people's."""
        said = {
            "status_msg": self.words,
            "geolocation": self.words,
            "cpu_name": self.words,
            "public_ipaddr": self.words,
        }
        ours = [
            a_machine_row(50_300_001, label=f"{PREFIX}1", **said) | {"machine_id": 1},
            a_machine_row(50_300_002, label=f"{PREFIX}2", **(said | {"gpu_name": self.gpu or self.words}))
            | {"machine_id": 2},
            a_machine_row(50_300_003, label=f"{PREFIX}3", **(said | {"actual_status": "exited"})) | {"machine_id": 3},
        ]
        return [*ours, a_machine_row(50_300_009, label=self.words, **said)]


@dataclass
class Outcome:
    """Everything that left the run as text."""

    ended: Ended
    asked: list[tuple[str, str, str]]
    texts: dict[str, list[str]]
    tool_results: list[dict[str, Any]]


class Records(logging.Handler):
    """What was logged meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


async def a_run_among(strangers: Strangers) -> Outcome:
    """One run from claim to conclusion in which the model looks at everything and tries to act."""
    memory, ledger, cluster = Diary(), Ledger(), QuietCluster()
    ledger.of[1].token, ledger.of[1].account = memory.token, "7"
    model = StrictModel(*CALLS)
    market = a_market(strangers)
    worlds: Any = _worlds(strangers, model, market)
    parts: Any = SimpleNamespace(memory=memory, ledger=ledger)
    effects = Effects(parts.memory, parts.ledger, _now)
    parts.memory.check = ledger.check
    limits = SettleLimits(settling=timedelta(minutes=5), confirm_gone=timedelta(minutes=1))
    lifecycle = Lifecycle(parts.memory, parts.memory, parts.ledger, effects, cluster, _now, limits)
    services = Services(
        worlds=worlds,
        runs=parts.memory,
        ledger=parts.ledger,
        cluster=cluster,
        effects=effects,
        observe=Observe(worlds, lifecycle, parts.ledger, parts.memory, cluster, _now),
        now=_now,
        new_secret=lambda: Secret("0123456789abcdef", "hash"),
        worker_url="http://workers.test",
        meter=Metrics(),
    )
    turn = turn_on(memory, memory, services, TOOLS)
    agent = a_fleet_agent(spec={"schedule": {"skipUnchanged": False}, "limits": {"minInstanceAge": "0s"}})
    record = replace(memory.record(), account_id="7")
    memory.call_for()
    logged, root = Records(), logging.getLogger("fleetagent")
    root.addHandler(logged)
    try:
        ended = await turn.take(Subject(agent, record, PREFIX), Lease(1, memory.token), lambda newest: newest)
    finally:
        root.removeHandler(logged)
    found = findings(agent.spec, ended.seen, Health(model_problem=ended.model_problem), NOW)
    machines = await ledger.instances(1)
    concluded = list(memory.concluded.values())
    bodies = [m for request in model.requests for m in request.messages]
    return Outcome(
        ended,
        strangers.asked,
        {
            "prompt": [str(m.get("content")) for m in bodies],
            "stored": [row.message.content for row in memory.rows],
            "ledger": [text for i in machines for text in (i.gpu_name, i.failure, i.machine_id) if text],
            "events": [message for _, message in cluster.events],
            "alerts": memory.alerts,
            "summary": [text for c in concluded for text in (c.summary, c.error) if text],
            "status": [f.message for f in found],
            "log": logged.said,
        },
        [json.loads(str(m["content"])) for m in model.requests[-1].messages if m["role"] == "tool"]
        if model.requests
        else [],
    )


def _worlds(strangers: Strangers, model: StrictModel, market: Any) -> FakeWorlds:
    if not strangers.broken:
        return FakeWorlds(model, market)

    class Broken(FakeWorlds):
        async def demand(self, agent: Any) -> Any:
            del agent
            http = httpx.AsyncClient(transport=httpx.MockTransport(strangers))
            return PrometheusSource(http, "http://demand.test", "up", now=_now)

    return Broken(model, market)


def _now() -> Any:
    return NOW
