"""Alerts of one agent on their way out: a real outbox, apprise, and receivers on loopback."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fleetagent.adapters.metrics import Metrics
from fleetagent.adapters.notify import ApprisePager
from fleetagent.adapters.postgres.notices import PostgresOutbox
from fleetagent.adapters.reach import Reach
from fleetagent.agent.delivery import Delivery
from fleetagent.agent.notices import Notices
from fleetagent.domain.records import AgentKey
from fleetagent.errors import Denied
from support.fakes import QuietCluster
from support.stores import KEY, Process

PATIENCE_S = 20.0
WITHIN_S = 60.0


@dataclass
class OneSecret(QuietCluster):
    """The Secret `pager` is in the namespace, or is not."""

    text: str | None = None

    async def secret(self, namespace: str, name: str, key: str) -> str:
        if self.text is None:
            raise Denied("SecretMissing", f"Secret {namespace}/{name} does not exist: create it")
        assert (name, key) == ("pager", "urls")
        return self.text


def now() -> datetime:
    """The clock that the database keeps, too."""
    return datetime.now(UTC)  # noqa: TID251


@dataclass
class Telling:
    """One process that sends alerts."""

    process: Process
    cluster: OneSecret = field(default_factory=OneSecret)
    keys: list[AgentKey] = field(default_factory=lambda: [KEY])
    wants: bool = True
    patience_s: float = PATIENCE_S
    steady: Callable[[], float] = time.monotonic
    nudged: list[AgentKey] = field(default_factory=list)
    notices: Notices = field(init=False)

    def __post_init__(self) -> None:
        pager = ApprisePager(Reach(["127.0.0.1"]), patience_seconds=self.patience_s)
        outbox = PostgresOutbox(self.process.database, cluster="test")
        deliver = Delivery(outbox, pager, self.cluster, Metrics(), now=now, steady=self.steady, web_url=None)
        self.notices = Notices(outbox, deliver, now=now, every=timedelta(seconds=0.02))

    def resources(self) -> list[dict[str, Any]]:
        """What is kept, as it is stored."""
        alerts = {"alerts": {"notifySecretRef": {"name": "pager", "key": "urls"}}} if self.wants else {}
        return [
            {"metadata": {"namespace": k.namespace, "name": k.name, "uid": f"uid of {k}"}, "spec": alerts}
            for k in self.keys
        ]

    async def raise_alert(self, code: str, message: str = "look", severity: str = "warning") -> int | None:
        """As code or the model does."""
        agent_id = (await self.process.agent()).id
        return await self.process.runs.raise_alert(agent_id, 0, code, severity, message)

    async def states(self) -> list[str]:
        """What came of each thing that was to be told, in order."""
        rows = await self.process.rows("SELECT kind, state FROM notifications ORDER BY id")
        return [f"{row['kind']} {row['state']}" for row in rows]

    async def until(self, true: Callable[[], Any], what: str) -> None:
        """Wait for it, with a limit."""
        deadline = time.monotonic() + WITHIN_S
        while not true():
            assert time.monotonic() < deadline, what
            await asyncio.sleep(0.01)

    async def until_states(self, *wanted: str) -> None:
        """Wait until this is what came of it."""
        deadline = time.monotonic() + WITHIN_S
        while (found := await self.states()) != list(wanted):
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.01)

    async def until_rows(self, query: str) -> None:
        """Wait until the database has such rows."""
        deadline = time.monotonic() + WITHIN_S
        while not await self.process.rows(query):
            assert time.monotonic() < deadline, query
            await asyncio.sleep(0.02)

    async def change(self, statement: str) -> None:
        """Let time have passed, in the database."""
        await self.process.rows(f"{statement} RETURNING 1")

    async def due_again(self) -> None:
        """What was put back may be tried now."""
        await self.change("UPDATE notifications SET next_try_at = now() - interval '1 second'")

    def reason(self, key: AgentKey = KEY) -> str | None:
        """What the condition would say; None while nothing is known, or wrong."""
        standing = self.notices.standing(key)
        return standing.problem.reason if standing is not None and standing.problem is not None else None


@asynccontextmanager
async def telling(process: Process, *lines: str, **more: Any) -> AsyncIterator[Telling]:
    """A process at work, with these lines in the Secret; without any there is no Secret."""
    desk = Telling(process, OneSecret(text="\n".join(lines) if lines else None), **more)
    work = asyncio.create_task(desk.notices.run(desk.resources, desk.nudged.append))
    try:
        yield desk
    finally:
        work.cancel()
        await asyncio.wait({work})
        await desk.notices.close()
