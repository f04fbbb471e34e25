"""One session of thousands of runs on a real Postgres: the real engine and stores, a strict server in this process."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from fleetagent.adapters.metrics import Metrics
from fleetagent.agent.desk import Desk, Secret, Services
from fleetagent.agent.effects import Effects
from fleetagent.agent.subject import Subject
from fleetagent.domain.model import ModelRequest, Reply
from fleetagent.domain.observation import Observation
from fleetagent.domain.records import Lease, Outcome, Pulse
from fleetagent.domain.schedule import Trigger
from support.counting_model import CountingModel
from support.fakes import FakeWorlds, QuietCluster
from support.ledger import an_intent
from support.life import BUDGET_TOKENS, SPEC
from support.manifests import a_fleet_agent
from support.months import Beat, Chances, Months, a_summary, call_for
from support.rehearsal import turn_on
from support.stores import KEY, Process, a_process

LEASE = timedelta(hours=6)
GONE = sa.text(
    "UPDATE instances SET phase = 'gone', gone_at = now() WHERE phase <> 'gone' AND provider_id <> ALL(:live)"
)


@dataclass
class Timed:
    """Implements ports.Model: what the server's part takes is none of ours."""

    model: CountingModel
    cpu_seconds: float = 0.0

    async def reply(self, request: ModelRequest) -> Reply:
        """The server's, its time taken."""
        began = time.process_time()
        try:
            return await self.model.reply(request)
        finally:
            self.cpu_seconds += time.process_time() - began

    async def context_window(self) -> int | None:
        """As the server says."""
        return await self.model.context_window()

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """As the server says."""
        return await self.model.count_tokens(request)


@dataclass(frozen=True, slots=True)
class Took:
    """One run: the time it took, and what of it was CPU of this process, the server's part aside."""

    outcome: Outcome
    requests: int
    seconds: float
    cpu_seconds: float


class LongSession:
    """The agent of this database, which nobody else touches."""

    def __init__(self, process: Process, chances: Chances) -> None:
        self.process = process
        self.model = CountingModel(window=BUDGET_TOKENS)
        self.world = Months(chances, self._launched)
        self.took: list[Took] = []
        self._timed = Timed(self.model)
        self._seen: Observation = self.world.seen()
        self._cluster = QuietCluster()
        self._agent = a_fleet_agent(name=KEY.name, namespace=KEY.namespace, spec=SPEC)
        self._turn = turn_on(process.leases, process.conversation, self._services(), self.world.tools())

    def _services(self) -> Services:
        process = self.process
        observe: Any = self._observe
        worlds: Any = FakeWorlds(self._timed, self.world)  # type: ignore[arg-type]  # of the market, offers alone
        return Services(
            worlds=worlds,
            runs=process.runs,
            ledger=process.ledger,
            cluster=self._cluster,
            effects=Effects(process.agents, process.ledger, self._now),
            observe=observe,
            now=self._now,
            new_secret=lambda: Secret("token", "hash"),
            worker_url=None,
            meter=Metrics(),
        )

    def _now(self) -> Any:
        return self.world.now

    async def _observe(
        self, subject: Subject, lease: Lease, run_id: int = 0, *, market: Any = None
    ) -> tuple[Observation, Pulse]:
        del lease, market
        return self._seen, await self.process.ledger.pulse(subject.record.id, run_id, self.world.now)

    async def _launched(self, desk: Desk, call_id: str, machine: str) -> None:
        intent = an_intent(
            intent_key=f"{desk.run.run_id}:{call_id}",
            label=f"fa/bench/{machine}",
            machine_id=f"m{machine}",
            usd_per_hour=Decimal("0.50"),
            expected_rate=100.0,
            worker_token_hash=machine,
        )
        ledger = desk.services.ledger
        action = await ledger.intend_launch(desk.run, intent, self.world.now)
        await ledger.launched(desk.run.lease, action, machine)

    async def pass_by(self, beats: int) -> AsyncIterator[int]:
        """So many runs, five simulated minutes apart; after each its number."""
        lease = await self.process.lease()
        for beat in self.world.beats(beats):
            await self._persist(lease, beat)
            self._seen = beat.seen
            self.model.script = list(beat.script)
            self.model.summaries = [a_summary(beat.number)]
            await self._run(lease)
            if beat.news:
                async with self.process.database.transaction() as connection:
                    await connection.execute(GONE, {"live": list(self.world.fleet)})
            yield beat.number

    async def _persist(self, lease: Lease, beat: Beat) -> None:
        waiting: list[tuple[str, Trigger]] = [("", Trigger.SCHEDULE)]
        call_for(beat, lambda words, kind: waiting.append((words, kind)))
        for words, kind in waiting:
            await self.process.runs.persist(lease.agent_id, kind, f"{kind} {beat.number} {words[:40]}", words or None)

    async def _run(self, lease: Lease) -> None:
        """As a keeper makes it: the agent's row is read first."""
        asked, servers = len(self.model.asked), self._timed.cpu_seconds
        began, cpu = time.perf_counter(), time.process_time()
        subject = Subject(self._agent, await self.process.agent(), "fa/bench/")
        ended = await self._turn.take(subject, lease, lambda newest: newest)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
        own = cpu_seconds - (self._timed.cpu_seconds - servers)
        self.took.append(Took(ended.outcome, len(self.model.asked) - asked, seconds, own))


@asynccontextmanager
async def a_long_session(database_url: str, chances: Chances) -> AsyncIterator[LongSession]:
    """A session without a run yet, on a migrated database."""
    async with a_process(database_url, lease=LEASE) as process:
        yield LongSession(process, chances)
