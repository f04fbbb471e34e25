"""The program inside a rented machine: it reports to the operator as the original system's workers did.

register → fetch parameters → param-done → benchmark → bench-done → running. Retries on connection errors, 429 and 5xx;
any other refusal ends this boot, as an image's entrypoint would give up. Knows nothing of the market that runs it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
CALL_TIMEOUT_S = 10.0


class WorkerRefusedError(Exception):
    """The operator does not want this worker; trying again would not help."""


@dataclass(slots=True, kw_only=True)
class WorkerLog:
    """What a worker has done so far, for whoever watches it."""

    state: str = "absent"
    uuid: str | None = None
    calls: int = 0
    boots: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One machine's program. Durations are handed to `sleep`, which knows how fast time passes."""

    http: httpx.AsyncClient
    base_url: str
    label: str
    min_rate: float
    rate: float
    parameters_s: float
    benchmark_s: float
    sleep: Callable[[float], Awaitable[None]]
    log: WorkerLog = field(default_factory=WorkerLog)
    repeats: bool = False
    """Say everything twice, as a worker does that has lost the first answer."""

    async def work(self) -> None:
        """One boot: from register to proving, or to a refusal. Returns when there is nothing more to report."""
        self.log.boots += 1
        try:
            await self._report_for_duty()
        except WorkerRefusedError as refusal:
            self.log.state = "refused"
            self.log.last_error = str(refusal)

    async def _report_for_duty(self) -> None:
        self.log.state = "registering"
        uuid = str((await self._tell("register", {"label": self.label, "min_rate": self.min_rate})).get("uuid", ""))
        if not uuid:
            raise WorkerRefusedError("register: the answer has no uuid")
        self.log.uuid = uuid
        self.log.state = "fetching parameters"
        await self.sleep(self.parameters_s)
        await self._tell("param-done", {"uuid": uuid})
        self.log.state = "benchmarking"
        await self.sleep(self.benchmark_s)
        answer = await self._tell("bench-done", {"uuid": uuid, "rate": self.rate})
        if answer.get("passed") is not True:
            self.log.state = "too slow"
            return
        await self._tell("running", {"uuid": uuid})
        self.log.state = "proving"

    async def _tell(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._tell_until_heard(call, body)
        return await self._tell_until_heard(call, body) if self.repeats else answer

    async def _tell_until_heard(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to one report."""
        pause_s = FIRST_PAUSE_S
        while True:
            self.log.calls += 1
            try:
                response = await self.http.post(
                    f"{self.base_url.rstrip('/')}/{call}", json=body, timeout=CALL_TIMEOUT_S
                )
            except httpx.InvalidURL as error:
                raise WorkerRefusedError(f"{call}: {error}") from error
            except httpx.HTTPError as error:
                self.log.last_error = f"{call}: {error!r}"
            else:
                if response.is_success:
                    return _object_in(response, call)
                self.log.last_error = f"{call}: {response.status_code} {response.text[:200]}"
                if response.status_code != 429 and response.status_code < 500:
                    raise WorkerRefusedError(self.log.last_error)
            await asyncio.sleep(pause_s)  # by the wall clock, however fast the market's: it protects a real server
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)


def _object_in(response: httpx.Response, call: str) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError as error:
        raise WorkerRefusedError(f"{call}: the answer is not JSON") from error
    if not isinstance(body, dict):
        raise WorkerRefusedError(f"{call}: the answer is no object")
    return body
