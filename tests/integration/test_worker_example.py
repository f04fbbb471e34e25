"""The worker that examples/ shows to image makers, run by sh against the real worker endpoint."""

import asyncio
import itertools
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.adapters.postgres.workers import PostgresWorkers
from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.listen import listening
from fleetagent.entrypoints.workers import WorkerEndpoint
from support.ledger import launched
from support.stores import NOON, Process, a_process

ENTRYPOINT = Path(__file__).parents[2] / "examples" / "worker" / "entrypoint.sh"
TOKEN = "abcdefghijklmnopqrstuvwxyz012345"
ENDS_WITHIN_S = 30.0

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the example needs curl")


async def until(true: Callable[[], bool]) -> None:
    """Wait for what another process does, with a limit."""
    async with asyncio.timeout(ENDS_WITHIN_S):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class Nobody:
    """Is not interested in nudges."""

    def nudge(self, key: AgentKey) -> None:
        del key


@dataclass
class Door:
    """What stands between a worker and the endpoint: hears every call, and sends away as many as it was told to."""

    inside: ASGIApp
    heard: list[str] = field(default_factory=list)
    refusals: list[Response] = field(default_factory=list)

    def app(self) -> Starlette:
        """To be listened at."""
        return Starlette(routes=[Mount("/", app=self)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.heard.append(scope["path"].rpartition("/")[2])
            if self.refusals:
                await self.refusals.pop(0)(scope, receive, send)
                return
        await self.inside(scope, receive, send)


@dataclass
class Town:
    """One machine that waits for its worker and needs 50 proofs/h, with room for the stand-ins of its image."""

    process: Process
    door: Door
    port: int
    folder: Path

    async def machine(self) -> dict[str, Any]:
        (row,) = await self.process.rows("SELECT * FROM instances")
        return row

    async def phases(self) -> list[str]:
        return [phase for phase, _ in (await self.machine())["timeline"]]

    def did(self, what: str) -> int:
        """How often a stand-in did this."""
        file = self.folder / what
        return len(file.read_text().splitlines()) if file.exists() else 0

    @asynccontextmanager
    async def worker(self, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """The entrypoint, which is killed at the block's end if it still runs. It fetches, measures 77.5 and proves."""
        usual = {
            "PATH": os.environ["PATH"],
            "FLEETAGENT_URL": f"http://127.0.0.1:{self.port}/workers/{TOKEN}",
            "VAST_CONTAINERLABEL": "C.9001",
            "MIN_RATE": "50",
            "FETCH_PARAMETERS": f"echo once >> {self.folder}/fetched",
            "BENCHMARK": "echo warming up; echo 77.5",
            "PROVE": f"sh {self.folder}/prove",
            "PAUSES": "0.02 0.05",
            "RUNNING_EVERY": "0.05",
        }
        (self.folder / "prove").write_text(f"echo $$ >> {self.folder}/proved; exec sleep 1000\n")
        worker = await asyncio.create_subprocess_exec(
            "sh", ENTRYPOINT, env=usual | environment, cwd=self.folder, stderr=asyncio.subprocess.PIPE
        )
        try:
            yield worker
        finally:
            if worker.returncode is None:
                worker.terminate()
            await worker.communicate()

    async def ended(self, worker: asyncio.subprocess.Process) -> tuple[int, str]:
        """The worker's exit code, and what it said."""
        async with asyncio.timeout(ENDS_WITHIN_S):
            _, said = await worker.communicate()
        assert TOKEN not in said.decode()
        assert worker.returncode is not None
        return worker.returncode, said.decode()

    async def until_it_proves(self, times: int = 1) -> None:
        """The operator has heard of proofs, from the prover that was started so many times."""
        await until(lambda: self.did("proved") >= times and self.door.heard[-1:] == ["running"])

    def prover_lives(self) -> bool:
        """Whether the newest prover is still there."""
        return Path(f"/proc/{(self.folder / 'proved').read_text().split()[-1]}").exists()


@pytest.fixture
async def town(database_url: str, tmp_path: Path) -> AsyncIterator[Town]:
    async with a_process(database_url) as process:
        run = await process.start()
        await launched(process, run, worker_token_hash=token_hash(TOKEN), min_rate=50)
        clock = (NOON + timedelta(seconds=n) for n in itertools.count())
        door = Door(WorkerEndpoint(PostgresWorkers(process.database), Nobody(), lambda: next(clock)).app())
        async with listening(door.app(), "127.0.0.1", 0, what="workers") as port:
            yield Town(process, door, port, tmp_path)


async def test_it_registers_fetches_measures_and_proves_and_says_each(town: Town) -> None:
    async with town.worker() as worker:
        await town.until_it_proves()
        await until(lambda: town.door.heard.count("running") >= 3)
        worker.send_signal(signal.SIGTERM)
        code, said = await town.ended(worker)

    assert (code, town.did("fetched"), town.did("proved")) == (0, 1, 1)
    assert town.door.heard[:3] == ["register", "param-done", "bench-done"]
    machine = await town.machine()
    assert (machine["measured_rate"], machine["worker_label"]) == (77.5, "C.9001")
    assert await town.phases() == ["requested", "registered", "benchmarking", "proving"]
    assert "passed with 77.5 proofs/h" in said
    await until(lambda: not town.prover_lives())  # it is killed, which takes its moment


@pytest.mark.parametrize(
    ("benchmark", "rate"),
    [
        ("echo 49.9", 49.9),
        ("echo 0", 0),
        ("echo 99; exit 1", 0),
        ("echo fast", 0),
        ("echo -5", 0),
        ("no-such-command", 0),
    ],
)
async def test_a_benchmark_that_is_refused_ends_the_worker_with_the_reason(
    town: Town, benchmark: str, rate: float
) -> None:
    async with town.worker(BENCHMARK=benchmark) as worker:
        code, said = await town.ended(worker)

    assert code == 11
    assert f"refused: {rate:g} proofs/h, and at least 50 are needed" in said
    machine = await town.machine()
    assert (machine["measured_rate"], town.did("proved")) == (rate, 0)
    assert machine["failure"].startswith(f"benchmark of {rate:g} p/h")


async def test_a_machine_that_cannot_fetch_its_parameters_says_so_rather_than_wait_for_a_time_out(town: Town) -> None:
    async with town.worker(FETCH_PARAMETERS=f"echo once >> {town.folder}/fetched; false") as worker:
        code, said = await town.ended(worker)

    assert (code, town.did("fetched")) == (11, 3)
    assert "the parameters cannot be fetched: saying a rate of 0" in said
    assert town.door.heard == ["register", "bench-done"]
    assert (await town.machine())["failure"] == "benchmark of 0 p/h: it makes no proofs"


async def test_whoever_is_not_heard_says_it_once_more(town: Town) -> None:
    page = "<html>nothing is here</html>"
    refusals = [PlainTextResponse(page, status) for status in (503, 502, 429, 404, 500)]
    town.door.refusals = list(refusals)

    async with town.worker():
        await town.until_it_proves()

    assert town.door.heard[: len(refusals) + 2] == ["register"] * (len(refusals) + 1) + ["param-done"]
    assert await town.phases() == ["requested", "registered", "benchmarking", "proving"]


async def test_an_operator_that_is_not_up_yet_is_waited_for(town: Town, unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}/workers/{TOKEN}"
    async with town.worker(FLEETAGENT_URL=url) as worker:
        assert worker.stderr is not None
        async with asyncio.timeout(ENDS_WITHIN_S):
            assert b"register: not heard (000)" in await worker.stderr.readline()

        async with listening(town.door.app(), "127.0.0.1", unused_tcp_port, what="workers"):
            await town.until_it_proves()
            worker.terminate()
            await town.ended(worker)


async def test_a_container_that_starts_again_is_the_same_worker_and_is_measured_afresh(town: Town) -> None:
    async with town.worker():
        await town.until_it_proves()
    uuid = (await town.machine())["worker_uuid"]

    async with town.worker(BENCHMARK="echo 88"):
        await town.until_it_proves(times=2)

    machine = await town.machine()
    assert (machine["worker_uuid"], machine["measured_rate"]) == (uuid, 88)
    assert (await town.phases())[-4:] == ["proving", "registered", "benchmarking", "proving"]


async def test_a_prover_that_ends_is_a_restart_too(town: Town) -> None:
    once = f"test -e {town.folder}/first || exec touch {town.folder}/first; exec sh {town.folder}/prove"
    (town.folder / "once").write_text(once)

    async with town.worker(PROVE=f"sh {town.folder}/once"):
        await town.until_it_proves()

    assert (await town.phases())[-4:] == ["proving", "registered", "benchmarking", "proving"]


async def test_a_machine_that_has_ended_is_told_so_and_stops(town: Town) -> None:
    async with town.worker() as worker:
        await town.until_it_proves()
        async with town.process.database.transaction() as connection:
            await connection.execute(sa.text("UPDATE instances SET phase = 'stopping'"))
        code, said = await town.ended(worker)

    assert code == 10
    assert "this machine is not known, or has ended" in said
    await until(lambda: not town.prover_lives())  # it is killed, which takes its moment


async def test_a_call_that_makes_no_sense_is_not_repeated(town: Town) -> None:
    town.door.refusals = [PlainTextResponse('{"error":"label is missing"}', 400)]

    async with town.worker() as worker:
        code, said = await town.ended(worker)

    assert (code, town.door.heard) == (12, ["register"])
    assert 'register: answered 400: {"error":"label is missing"}' in said


async def test_the_secret_is_in_no_argument_and_in_nobody_else_s_environment(town: Town) -> None:
    curl = town.folder / "bin" / "curl"
    curl.parent.mkdir()
    curl.write_text(f'#!/bin/sh\necho "$@" >> {town.folder}/arguments\nexec {shutil.which("curl")} "$@"\n')
    curl.chmod(0o755)

    path = f"{curl.parent}:{os.environ['PATH']}"
    async with town.worker(PATH=path, BENCHMARK=f"env > {town.folder}/environment; echo 60"):
        await town.until_it_proves()

    assert town.did("arguments") >= 4
    assert TOKEN not in (town.folder / "arguments").read_text()
    environment = (town.folder / "environment").read_text()
    assert TOKEN not in environment
    assert "MIN_RATE=50" in environment


async def test_without_a_url_it_ends_at_once_and_says_why(town: Town) -> None:
    async with town.worker(FLEETAGENT_URL="") as worker:
        code, said = await town.ended(worker)

    assert code == 13
    assert "FLEETAGENT_URL is not set" in said


@pytest.mark.parametrize("min_rate", ["", "fast", '5, "x": 1', "1e3", "007"])
async def test_a_minimum_that_is_no_number_breaks_no_call(town: Town, min_rate: str) -> None:
    async with town.worker(MIN_RATE=min_rate):
        await town.until_it_proves()

    assert (await town.machine())["measured_rate"] == 77.5
