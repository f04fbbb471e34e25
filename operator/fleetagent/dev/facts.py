"""What is true at one moment, read where it stands: API server, database, market, model."""

import http.client
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import httpx
import psycopg
from psycopg.rows import class_row

from fleetagent.agent.subject import label_prefix
from fleetagent.dev.apiserver import ApiError, ApiServer
from fleetagent.dev.closing import Closing
from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import GROUP, PLURAL, VERSION, FleetAgent
from fleetagent.errors import BadResource

T = TypeVar("T")

TIMEOUT_S = 3.0
RUNS_READ = 8
OUR_LABELS = "fa/"
"""What the labels of all agents' machines begin with, whichever operator launched them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A live row of `instances`. Rates are proofs per hour."""

    namespace: str
    name: str
    label: str
    provider_id: str | None
    phase: str
    phase_since: datetime
    gpu_name: str
    num_gpus: int
    expected_rate: float
    measured_rate: float | None
    usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A row of `runs`."""

    run_id: int
    state: str
    triggers: list[str]
    outcome: str | None
    summary: str | None
    error: str | None
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAlert:
    """A row of `alerts` that nobody has acknowledged."""

    id: int
    severity: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What the database says. `launches` counts intents that may have reached the market, of all agents."""

    machines: tuple[Machine, ...]
    runs: tuple[PastRun, ...]
    alerts: tuple[OpenAlert, ...]
    launches: int


@dataclass(frozen=True, slots=True)
class RentedMachine:
    """A machine that lives on the market and carries a label of ours."""

    id: str
    label: str
    usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketFacts:
    """The market's truth, whatever its API shows."""

    machines: tuple[RentedMachine, ...]
    creates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What the model server counted."""

    requests: int
    violations: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One look. A part that could not be read is None, and `unreadable` says why."""

    at: datetime
    label_prefix: str
    """What the labels of this agent's machines begin with."""

    agent: FleetAgent | None = None
    ledger: Ledger | None = None
    market: MarketFacts | None = None
    model: ModelFacts | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def own_machines(self) -> tuple[Machine, ...]:
        """The ledger's live machines of the agent that is watched."""
        if self.agent is None or self.ledger is None:
            return ()
        key = (self.agent.metadata.namespace, self.agent.metadata.name)
        return tuple(m for m in self.ledger.machines if (m.namespace, m.name) == key)

    @property
    def measured_proofs_per_hour(self) -> float:
        """What the proving machines of the agent make, by their benchmarks."""
        return sum(m.measured_rate or 0.0 for m in self.own_machines if m.phase == "proving")


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look."""

    api: ApiServer
    database_url: str
    market_url: str
    model_url: str


class Reader(Closing):
    """Looks again and again; what is down now is asked again at the next look."""

    def __init__(self, sources: Sources, agent: AgentKey, *, cluster: str) -> None:
        self._label_prefix = label_prefix(cluster, agent)
        self._sources = sources
        self._agent = agent
        self._http = httpx.Client(trust_env=False, timeout=TIMEOUT_S)
        self._database: psycopg.Connection[Any] | None = None

    def look(self) -> Facts:
        """Everything that can be read now."""
        unreadable: list[str] = []

        def tried(what: str, read: Callable[[], T]) -> T | None:
            try:
                return read()
            except (ApiError, OSError, http.client.HTTPException, httpx.HTTPError, psycopg.Error, BadResource) as error:
                unreadable.append(f"{what} cannot be read: {' '.join(str(error).split()) or repr(error)}")
                return None

        return Facts(
            at=datetime.now(UTC),  # noqa: TID251  # the demo's clock
            label_prefix=self._label_prefix,
            agent=tried(f"FleetAgent {self._agent}", self._read_agent),
            ledger=tried("the database", self._read_ledger),
            market=tried("the market", self._read_market),
            model=tried("the model server", self._read_model),
            unreadable=tuple(unreadable),
        )

    def close(self) -> None:
        """Hang up."""
        self._http.close()
        if self._database is not None:
            self._database.close()

    def _read_agent(self) -> FleetAgent:
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{self._agent.namespace}/{PLURAL}/{self._agent.name}"
        return FleetAgent.stored(self._sources.api.call("GET", path))

    def _read_ledger(self) -> Ledger:
        if self._database is None or self._database.closed:
            self._database = psycopg.connect(
                self._sources.database_url, autocommit=True, connect_timeout=int(TIMEOUT_S), prepare_threshold=None
            )
        who = {"namespace": self._agent.namespace, "name": self._agent.name, "runs": RUNS_READ}
        with self._database.cursor(row_factory=class_row(Machine)) as rows:
            machines = rows.execute(MACHINES).fetchall()
        with self._database.cursor(row_factory=class_row(PastRun)) as rows:
            runs = rows.execute(RUNS, who).fetchall()
        with self._database.cursor(row_factory=class_row(OpenAlert)) as rows:
            alerts = rows.execute(ALERTS, who).fetchall()
        launches = self._database.execute(LAUNCHES).fetchall()[0][0]
        return Ledger(machines=tuple(machines), runs=tuple(runs), alerts=tuple(alerts), launches=launches)

    def _read_market(self) -> MarketFacts:
        state = self._get(self._sources.market_url)
        ours = [m for m in state["machines"] if m["live"] and (m["label"] or "").startswith(OUR_LABELS)]
        machines = tuple(RentedMachine(str(m["id"]), m["label"], Decimal(str(m["dph_total"]))) for m in ours)
        return MarketFacts(machines=machines, creates=state["calls"]["create"])

    def _read_model(self) -> ModelFacts:
        state = self._get(self._sources.model_url.removesuffix("/v1"))
        return ModelFacts(requests=state["requests"], violations=state["violations_by_rule"])

    def _get(self, base_url: str) -> dict[str, Any]:
        answer = self._http.get(f"{base_url}/_sim/state").raise_for_status()
        state: dict[str, Any] = answer.json()
        return state


MACHINES = """
SELECT a.namespace, a.name, i.label, i.provider_id, i.phase, i.phase_since, i.gpu_name, i.num_gpus, i.expected_rate,
       i.measured_rate, i.usd_per_hour
FROM instances i JOIN agents a ON a.id = i.agent_id
WHERE i.phase NOT IN ('gone', 'failed') ORDER BY i.requested_at, i.id"""

RUNS = """
SELECT r.run_id, r.state, r.triggers, r.outcome, r.summary, r.error, r.started_at
FROM runs r JOIN agents a ON a.id = r.agent_id
WHERE a.namespace = %(namespace)s AND a.name = %(name)s ORDER BY r.run_id DESC LIMIT %(runs)s"""

ALERTS = """
SELECT l.id, l.severity, l.message
FROM alerts l JOIN agents a ON a.id = l.agent_id
WHERE a.namespace = %(namespace)s AND a.name = %(name)s AND l.state = 'open' ORDER BY l.id"""

LAUNCHES = """
SELECT count(*) FROM actions
WHERE kind = 'launch' AND state NOT IN ('refused', 'waiting', 'rejected', 'expired')"""
