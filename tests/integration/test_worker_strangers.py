"""The worker endpoint on the open internet, over bare sockets: no stranger keeps it busy, or changes anything."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.adapters.postgres.workers import MOST_MOVES_TOLD, PostgresWorkers
from fleetagent.domain.records import AgentKey, Run
from fleetagent.entrypoints.guarded import Crowd
from fleetagent.entrypoints.listen import listening
from fleetagent.entrypoints.workers import CALLS_OF_A_MACHINE, STRANGERS_OF_A_PEER, WorkerEndpoint
from support.ledger import launched
from support.stores import NOON, Process, a_process

TOKEN = "abcdefghijklmnopqrstuvwxyz012345"
OTHERS = "zyxwvutsrqponmlkjihgfedcba543210"
SHORT = 1.5
LABEL = '{"label": "w"}'


@dataclass
class Door:
    """The endpoint with two live machines, and how often the database was asked anything."""

    port: int
    http: httpx.AsyncClient
    process: Process
    run: Run
    nudged: list[AgentKey] = field(default_factory=list)
    statements: int = 0

    def nudge(self, key: AgentKey) -> None:
        self.nudged.append(key)

    async def say(self, call: str, body: Any = None, token: str = TOKEN) -> httpx.Response:
        return await self.http.post(f"/workers/{token}/{call}", content=json.dumps(body or {"label": "w"}))

    async def raw(self, data: bytes, *, within: float = 5.0) -> bytes:
        """All that comes back until the other side hangs up."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            async with asyncio.timeout(within):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def machine(self, number: int = 1) -> dict[str, Any]:
        rows = await self.process.rows("SELECT * FROM instances ORDER BY id")
        return rows[number - 1]

    async def news(self) -> list[str]:
        return [row["words"] for row in await self.process.rows("SELECT words FROM triggers ORDER BY id")]


@asynccontextmanager
async def a_door(database_url: str, crowd: Crowd, steady: Callable[[], float] = time.monotonic) -> AsyncIterator[Door]:
    async with a_process(database_url) as process:
        run = await process.start()
        await launched(process, run, 1, worker_token_hash=token_hash(TOKEN), min_rate=50)
        await launched(process, run, 2, worker_token_hash=token_hash(OTHERS), min_rate=50)
        door = Door(0, httpx.AsyncClient(), process, run)
        clock = iter(NOON + timedelta(seconds=n) for n in range(10**6))
        app = WorkerEndpoint(PostgresWorkers(process.database), door, lambda: next(clock), steady).app()
        async with (
            listening(app, "127.0.0.1", 0, what="workers", crowd=crowd) as door.port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{door.port}", trust_env=False) as door.http,
        ):
            engine = process.database._engine.sync_engine
            sa.event.listen(engine, "before_cursor_execute", lambda *_: _count(door))
            yield door


def _count(door: Door) -> None:
    door.statements += 1


@pytest.fixture
async def door(database_url: str) -> AsyncIterator[Door]:
    async with a_door(database_url, Crowd()) as door:
        yield door


def request(path: str = f"/workers/{TOKEN}/register", *headers: str, body: str = LABEL, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: workers.test", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join([*lines, "", ""]) + body).encode()


SLOW = {
    "says nothing": b"",
    "half a head": b"POST /workers/x/register HTTP/1.1\r\nHost: w\r\n",
    "a body that never ends": request(body=LABEL).replace(b"Content-Length: 14", b"Content-Length: 15000"),
    "chunks without an end": request()
    .replace(b"Content-Length: 14", b"Transfer-Encoding: chunked")
    .replace(LABEL.encode(), b"1\r\n{\r\n"),
    "wants to go on first": request("/workers/x/register", "Expect: 100-continue", body=""),
}


@pytest.mark.parametrize("drips", [False, True], ids=["and waits", "and drips"])
@pytest.mark.parametrize("name", SLOW)
async def test_who_is_slow_is_hung_up_on_while_machines_are_heard(name: str, database_url: str, *, drips: bool) -> None:
    async with a_door(database_url, Crowd(longest_seconds=SHORT)) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        try:
            writer.write(SLOW[name])
            hung_up = asyncio.create_task(reader.read())
            async with asyncio.timeout(60):
                while not hung_up.done():
                    if drips and not writer.is_closing():
                        writer.write(b"X")
                    assert (await door.say("running", {"uuid": "none"}, token=OTHERS)).status_code in {404, 429}
                    await asyncio.wait({hung_up}, timeout=SHORT / 8)
            assert not isinstance(hung_up.exception(), TimeoutError)
        finally:
            writer.close()


async def test_who_asks_without_end_and_reads_nothing_gets_one_answer_and_is_hung_up_on(door: Door) -> None:
    answers = await door.raw(request() * 200)

    assert answers.count(b"HTTP/1.1 ") == 1
    assert answers.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answers.lower()


async def test_a_head_without_end_is_not_kept_and_not_told_to_the_log(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for junk in (b"GET /" + b"a" * 60_000, b"\x16\x03\x01\x02\x00" * 20_000, b"POST / HTTP/9.9\r\n\r\n"):
            answer = await door.raw(junk)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        await door.raw(request("/workers/x/register", "Connection: upgrade", "Upgrade: websocket"))

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_one_peer_may_hold_only_so_many_lines_and_has_them_back_when_it_lets_go(database_url: str) -> None:
    async with a_door(database_url, Crowd(most_of_a_peer=5)) as door:
        held = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(5)]
        for _ in range(20):
            assert await door.raw(request()) == b""
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(5):
            while not (answer := await door.raw(request())):
                pass  # it has not heard yet that they are gone

        assert answer.startswith(b"HTTP/1.1 200")


METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "post", "PO\x00ST")
PATHS = (
    f"/workers/{TOKEN}/register/",
    f"//workers/{TOKEN}/register",
    f"/workers//{TOKEN}/register",
    f"/workers/{TOKEN}/./register",
    f"/workers/x/../{TOKEN}/register",
    f"/workers/{TOKEN}/register%00",
    f"/workers/{TOKEN}%00/register",
    f"/workers/%20{TOKEN}/register",
    f"/workers/{TOKEN}/REGISTER",
    f"/WORKERS/{TOKEN}/register",
    f"/workers/{TOKEN.upper()}/register",
    f"/workers/{TOKEN[:-1]}/register",
    f"/workers/{token_hash(TOKEN)}/register",
    f"/workers/register?token={TOKEN}",
    "/workers//register",
    "/workers/%ED%A0%80/register",
    f"/workers/{'a' * 9000}/register",
    "*",
)


async def test_no_other_way_in_leads_anywhere_and_none_repeats_the_secret(door: Door) -> None:
    tried = [
        *(request(method=method) for method in METHODS),
        request("/workers/x/register", "X-HTTP-Method-Override: POST", method="GET"),
        *map(request, PATHS),
    ]
    for sent in tried:
        answer = await door.raw(sent)
        assert answer.split(b" ")[1:2] in ([], [b"400"], [b"404"], [b"405"], [b"429"]), sent
        assert TOKEN.encode() not in answer, sent

    assert ((await door.machine())["phase"], door.nudged) == ("requested", [])


async def test_a_flood_of_strangers_hardly_reaches_the_database_and_keeps_no_machine_out(door: Door) -> None:
    assert (await door.say("register")).status_code == 200
    before, began = door.statements, asyncio.get_running_loop().time()

    async def stranger(number: int) -> int:
        return (await door.say("register", token=f"stranger-{number:023}")).status_code

    statuses: list[int] = []
    heard = 0
    for batch in range(20):
        statuses += await asyncio.gather(*(stranger(batch * 25 + n) for n in range(25)))
        heard += (await door.say("register")).status_code == 200
    seconds = asyncio.get_running_loop().time() - began

    assert heard == 20
    assert set(statuses) == {404, 429}
    of_the_machine = 20 * 3  # how long its transaction may last, its row, and its label
    assert door.statements - before - of_the_machine <= 10 + seconds + 1


async def test_a_machine_that_is_a_moment_old_is_heard_although_a_flood_comes_from_its_own_address(
    database_url: str,
) -> None:
    young = "young-" + "y" * 26
    async with a_door(database_url, Crowd(), steady=lambda: 0.0) as door:  # strangers get no new allowance
        while (await door.say("register", token="x" * 32)).status_code != 429:
            pass
        for number in range(STRANGERS_OF_A_PEER[0]):
            await door.say("register", token=f"stranger-{number:023}")
        await launched(door.process, door.run, 3, worker_token_hash=token_hash(young))
        statuses: list[int] = []
        async with asyncio.timeout(10):
            while 200 not in statuses:
                statuses.append((await door.say("register", token=young)).status_code)

    assert set(statuses) <= {200, 429}


async def test_one_machine_that_calls_without_end_is_slowed_and_no_other_one_is(door: Door) -> None:
    uuid = (await door.say("register")).json()["uuid"]
    for _ in range(CALLS_OF_A_MACHINE[0] * 4):  # a slow machine earns some calls meanwhile
        last = await door.say("running", {"uuid": uuid})
        if last.status_code != 200:
            break

    assert (last.status_code, last.headers["Retry-After"]) == (429, "1")
    assert (await door.say("register", token=OTHERS)).status_code == 200


async def test_the_uuid_of_another_machine_opens_nothing(door: Door) -> None:
    others = (await door.say("register", token=OTHERS)).json()["uuid"]
    await door.say("register")

    answers = [
        await door.say(call, {"uuid": others, "rate": 90}, token=TOKEN)
        for call in ("param-done", "bench-done", "running")
    ]

    assert [answer.status_code for answer in answers] == [404] * 3
    assert [(await door.machine(n))["phase"] for n in (1, 2)] == ["registered"] * 2


async def test_only_what_changes_something_calls_its_agent(door: Door) -> None:
    uuid = (await door.say("register")).json()["uuid"]
    for call in ("register", "running", "param-done", "param-done", "bench-done", "bench-done", "running", "running"):
        await door.say(call, {"label": "w", "uuid": uuid, "rate": 90})

    assert len(door.nudged) == 3  # registered, benchmarking, proving


@pytest.mark.parametrize(("claimed", "counted"), [(199, None), (201, 200.0), (499, 200.0)])
async def test_of_a_rate_that_is_not_plausible_only_so_much_is_counted_and_the_worker_is_told(
    door: Door, claimed: float, counted: float | None
) -> None:
    uuid = (await door.say("register")).json()["uuid"]

    answer = (await door.say("bench-done", {"uuid": uuid, "rate": claimed})).json()

    machine = await door.machine()
    assert (machine["phase"], machine["measured_rate"]) == ("proving", counted or claimed)
    assert answer.get("counted_rate") == counted
    assert ("not plausible" in answer.get("note", "")) == (counted is not None)
    (told,) = await door.news()
    assert ("it claims" in told) == (counted is not None)
    assert (await door.process.rows("SELECT rates FROM hosts"))[0]["rates"] == [counted or claimed]


@pytest.mark.parametrize("claimed", [501, 99_999])
async def test_a_rate_that_no_gpu_makes_fails_the_machine_at_once(door: Door, claimed: float) -> None:
    uuid = (await door.say("register")).json()["uuid"]

    answer = (await door.say("bench-done", {"uuid": uuid, "rate": claimed})).json()

    assert (answer["passed"], (await door.machine())["phase"]) == (False, "registered")
    assert "more than 1x RTX 5090 can make" in (await door.machine())["failure"]


async def test_a_worker_that_restarts_all_the_time_buys_no_run_each_time_and_fills_no_row(door: Door) -> None:
    workers = PostgresWorkers(door.process.database)
    for moment in range(150):
        now = NOON + timedelta(seconds=5 * moment)
        registered = await workers.register(TOKEN, "w", now)
        assert registered is not None
        assert await workers.bench_done(TOKEN, registered.uuid, 90, now)

    machine = await door.machine()
    assert (machine["phase"], len(machine["timeline"])) == ("proving", 104)
    assert [phase for phase, _ in machine["timeline"][:3]] == ["requested", "registered", "proving"]
    assert len(await door.news()) <= MOST_MOVES_TOLD


async def test_a_worker_that_crashes_soon_after_each_benchmark_fails_its_machine(door: Door) -> None:
    workers = PostgresWorkers(door.process.database)
    for life in range(5):
        now = NOON + timedelta(minutes=30 * life)
        registered = await workers.register(TOKEN, "w", now)
        assert registered is not None
        await workers.bench_done(TOKEN, registered.uuid, 90, now + timedelta(minutes=29))

    machine = await door.machine()
    assert (machine["phase"], machine["measured_rate"]) == ("registered", 90)
    assert machine["failure"] == "its worker began again 4 times and proved for 4 of 120 min"
    assert (await door.news())[-1].endswith("has restarted: its worker began again 4 times and proved for 4 of 120 min")


async def test_two_machines_with_one_secret_are_taken_for_one_and_break_nothing(door: Door) -> None:
    async with door.process.database.transaction() as connection:
        await connection.execute(sa.text("UPDATE instances SET worker_token_hash = :h"), {"h": token_hash(TOKEN)})

    assert [(await door.say("register")).status_code for _ in range(3)] == [200] * 3
    assert [(await door.machine(n))["phase"] for n in (1, 2)] == ["registered", "requested"]


async def test_a_body_of_a_megabyte_is_answered_and_one_without_end_is_cut_off(door: Door) -> None:
    megabyte = await door.raw(request(body=" " * 1_000_000))
    endless = request().replace(b"Content-Length: 14", b"Transfer-Encoding: chunked").replace(LABEL.encode(), b"")

    assert b"larger than 16384 bytes" in megabyte
    assert len(await door.raw(endless + b"2000000\r\n" + b" " * 2_000_000)) < 1000
    assert (await door.machine())["phase"] == "requested"


async def test_while_the_database_is_away_nobody_is_told_that_it_is_unknown_and_no_secret_is_logged(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    uuid = (await door.say("register")).json()["uuid"]
    await door.process.database._engine.dispose()
    with caplog.at_level(logging.DEBUG):
        async with _without_tables(door.process):
            answers = [
                await door.say("running", {"uuid": uuid}),
                await door.say("register", {"label": TOKEN}),
                await door.say("register", token="stranger-" + "s" * 23),
            ]

    assert [answer.status_code for answer in answers] == [503] * 3
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith("http")]  # not what this test's client says
    assert TOKEN not in " ".join(ours) + "".join(answer.text for answer in answers)
    assert (await door.say("running", {"uuid": uuid})).status_code == 200


@asynccontextmanager
async def _without_tables(process: Process) -> AsyncIterator[None]:
    """Nothing can be read: the owner of the tables has moved them away."""
    async with process.database.transaction() as connection:
        await connection.execute(sa.text("ALTER TABLE instances RENAME TO instances_away"))
    yield
    async with process.database.transaction() as connection:
        await connection.execute(sa.text("ALTER TABLE instances_away RENAME TO instances"))
