"""Demand from a real Postgres that holds Curio's tables: what is counted, and what makes it unknown."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from fleetagent.adapters.demand.curio import CurioSource
from fleetagent.adapters.demand.dsn import read_dsn
from fleetagent.dev.pgbouncer import PgBouncer
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.domain.demand import Demand
from fleetagent.errors import BadResource, FleetAgentError, TryLater
from support.cluster import eventually
from support.curio import MACHINES, PASSWORD, CurioDatabase, a_curio_database

FIELD = "spec.demand.curio.dsnSecretRef: "
Rows = list[dict[str, Any]]
ELSEWHERE = {"owner_id": 7}
MORE_THAN_ENOUGH_SECONDS = 20.0


@pytest.fixture
def curio(postgres_server: EmbeddedPostgres) -> Iterator[CurioDatabase]:
    with a_curio_database(postgres_server) as database:
        yield database


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)  # noqa: TID251 - the database reads its own clock


async def look(dsn: str, *, look_seconds: float = 5.0) -> Demand:
    async with asyncio.timeout(MORE_THAN_ENOUGH_SECONDS):
        return await CurioSource(read_dsn(dsn), look_seconds=look_seconds).demand()


async def failure(dsn: str, *, look_seconds: float = 5.0) -> FleetAgentError:
    """How the look fails; in whatever way, the password is not told."""
    with pytest.raises(FleetAgentError) as caught:
        await look(dsn, look_seconds=look_seconds)
    assert PASSWORD not in repr(caught.value) + str(caught.value)
    assert str(caught.value).startswith(FIELD)
    return caught.value


async def test_empty_tables_are_a_demand_of_none_and_not_an_unknown_one(curio: CurioDatabase) -> None:
    assert await look(curio.dsn) == Demand(active=False, queued=0, arrival_per_hour=0.0)


async def test_open_tasks_without_an_owner_wait_and_a_snap_proof_counts_as_1_6(curio: CurioDatabase) -> None:
    waiting: Rows = [{"name": "PoRep"}] * 3 + [{"name": "UpdateProve"}] * 2
    others: Rows = [
        {"name": "SDR"},
        {"name": "PShareSubmit"},
        *({"name": n, **ELSEWHERE} for n in ("PoRep", "UpdateProve")),
    ]
    curio.add("harmony_task", *waiting, *others)

    assert await look(curio.dsn) == Demand(active=True, queued=7, arrival_per_hour=0.0)  # 3 + 2 x 1.6 = 6.2


async def test_a_sector_whose_proof_is_the_next_step_waits_already(curio: CurioDatabase) -> None:
    ready: dict[str, Any] = {"after_precommit_msg_success": True, "seed_epoch": 4711}
    later: Rows = [ready | more for more in ({"seed_epoch": None}, {"after_precommit_msg_success": False})]
    done: Rows = [ready | more for more in ({"task_id_porep": 1}, {"after_porep": True}, {"failed": True})]
    curio.add("sectors_sdr_pipeline", ready, ready, *later, *done)
    snap = {"after_encode": True}
    curio.add("sectors_snap_pipeline", snap, *(snap | {flag: True} for flag in ("after_prove", "failed")))
    curio.add("sectors_snap_pipeline", snap | {"task_id_prove": 1}, {"after_encode": False})

    assert await look(curio.dsn) == Demand(active=True, queued=4, arrival_per_hour=0.0)  # 2 + 1.6 = 3.6


async def test_the_market_s_queue_is_counted_by_curio_s_own_test_and_no_task_twice(curio: CurioDatabase) -> None:
    curio.add("harmony_task", {"id": 1, "name": "PSProve"}, {"id": 2, "name": "PSProve", **ELSEWHERE})
    curio.add("harmony_task", {"id": 3, "name": "PSProve"})  # its row in the queue is done or not there: still waiting
    waiting: Rows = [{"compute_task_id": None}, {"compute_task_id": 1}, {"compute_task_id": 99}]
    curio.add("proofshare_queue", *waiting, {"compute_task_id": 2}, {"compute_task_id": 3, "compute_done": True})

    assert (await look(curio.dsn)).queued == 4


@pytest.mark.parametrize("enabled", [True, False])
async def test_an_enabled_market_is_demand_although_nothing_waits(curio: CurioDatabase, enabled: bool) -> None:  # noqa: FBT001
    curio.add("proofshare_meta", {"enabled": enabled, "wallet": "f1abc"})

    assert await look(curio.dsn) == Demand(active=enabled, queued=0, arrival_per_hour=0.0)


async def test_a_proof_that_is_being_made_is_demand_though_it_does_not_wait(curio: CurioDatabase) -> None:
    curio.add("harmony_task", {"name": "PoRep", **ELSEWHERE})

    assert await look(curio.dsn) == Demand(active=True, queued=0, arrival_per_hour=0.0)


async def test_arrivals_are_the_tasks_posted_within_the_hour_each_once_whatever_its_tries(curio: CurioDatabase) -> None:
    tries = [{"task_id": 1, "name": "PoRep", "posted": ago(minutes=50), "result": ok} for ok in (False, False, True)]
    again = {"task_id": 2, "name": "PoRep", "posted": ago(minutes=30), "result": False}  # and it is open once more
    long_ago = {"task_id": 3, "name": "PoRep", "posted": ago(minutes=61)}
    other = {"task_id": 4, "name": "SDR", "posted": ago(minutes=5)}
    snap = {"task_id": 5, "name": "UpdateProve", "posted": ago(minutes=5)}
    market = {"task_id": 6, "name": "PSProve", "posted": ago(minutes=5)}
    curio.add("harmony_task_history", *tries, again, long_ago, other, snap, market)
    curio.add("harmony_task", {"id": 2, "name": "PoRep", "posted_time": ago(minutes=30), "retries": 1, **ELSEWHERE})
    curio.add("harmony_task", {"id": 9, "name": "PoRep", "posted_time": ago(hours=2), **ELSEWHERE})

    assert (await look(curio.dsn)).arrival_per_hour == pytest.approx(4.6)  # tasks 1, 2, 6 and 5 x 1.6


@pytest.mark.parametrize(("name", "active"), [("PoRep", True), ("UpdateProve", True), ("PSProve", False)])
async def test_sealing_of_this_hour_keeps_demand_active_and_work_of_a_market_that_is_off_does_not(
    curio: CurioDatabase, name: str, *, active: bool
) -> None:
    curio.add("harmony_task_history", {"task_id": 1, "name": name, "posted": ago(minutes=59)})

    assert (await look(curio.dsn)).active is active


async def test_one_look_is_one_connection_that_is_closed_after_it(curio: CurioDatabase) -> None:
    for _ in range(3):
        await look(curio.dsn)

    eventually(lambda: curio.connections_of_the_reader() == 0, "no connection is left")


async def test_looks_through_pgbouncer_share_one_session_and_leave_nothing_set_in_it(
    curio: CurioDatabase, postgres_server: EmbeddedPostgres
) -> None:
    with PgBouncer.start(postgres_server.url, pool_size=1) as pool:
        dsn = pool.url_of(curio.name)

        looks = await asyncio.gather(*(look(dsn) for _ in range(20)))

        assert looks == [Demand(active=False, queued=0, arrival_per_hour=0.0)] * 20
        async with await psycopg.AsyncConnection.connect(dsn, prepare_threshold=None) as connection:
            shown = [
                await (await connection.execute(f"SHOW {name}".encode())).fetchone()
                for name in ("statement_timeout", "transaction_read_only", "default_transaction_read_only")
            ]
            prepared = await (await connection.execute("SELECT count(*) FROM pg_prepared_statements")).fetchone()
    assert (shown, prepared) == ([("0",), ("off",), ("off",)], (0,))


async def test_a_look_can_write_nothing_even_where_the_user_may(curio: CurioDatabase) -> None:
    curio.do("""
        CREATE TABLE curio.written (n integer);
        CREATE FUNCTION curio.writes() RETURNS boolean LANGUAGE sql VOLATILE
            AS 'INSERT INTO curio.written VALUES (1) RETURNING true';
        DROP TABLE curio.proofshare_meta;
        CREATE VIEW curio.proofshare_meta AS SELECT curio.writes() AS enabled""")
    curio.do(f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA curio TO {curio.reader}")

    error = await failure(curio.dsn)

    assert "read-only transaction" in str(error)


@pytest.mark.parametrize(
    ("damage", "reason", "words"),
    [
        ("DROP TABLE curio.harmony_task_history", "CurioTablesMissing", 'relation "curio.harmony_task_history"'),
        ("DROP SCHEMA curio CASCADE", "CurioTablesMissing", "must name the database of a Curio"),
        ("ALTER TABLE curio.harmony_task DROP owner_id", "CurioTablesMissing", 'column "owner_id" does not exist'),
        ("REVOKE SELECT ON curio.proofshare_meta FROM {}", "CurioForbidden", "permission denied for table proofshare"),
        ("REVOKE USAGE ON SCHEMA curio FROM {}", "CurioForbidden", "GRANT USAGE ON SCHEMA curio, and SELECT on its "),
        ("ALTER ROLE {} NOLOGIN", "LoginRefused", "correct user, password"),
        ("ALTER ROLE {} PASSWORD 'another'", "LoginRefused", "password authentication failed"),
    ],
)
async def test_what_the_owner_can_mend_has_a_reason_and_a_remedy(
    curio: CurioDatabase, damage: str, reason: str, words: str
) -> None:
    curio.do(damage.replace("{}", curio.reader))

    error = await failure(curio.dsn)

    assert isinstance(error, BadResource)
    assert (error.condition, error.reason) == ("DemandKnown", reason)
    assert words in str(error)


async def test_a_database_that_is_not_there_is_the_dsn_s_fault(curio: CurioDatabase) -> None:
    error = await failure(curio.dsn.replace(f"/{curio.name}", "/nowhere"))

    assert isinstance(error, BadResource)
    assert error.reason == "LoginRefused"


async def test_the_operator_s_own_password_is_not_tried_at_somebody_s_database(
    curio: CurioDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert await look(curio.dsn)

    error = await failure(curio.dsn.replace(f":{PASSWORD}", ""))

    assert isinstance(error, BadResource)
    assert error.reason == "LoginRefused"


async def test_nobody_at_the_address_is_unknown(unused_tcp_port: int) -> None:
    error = await failure(f"postgresql://reader:{PASSWORD}@127.0.0.1:{unused_tcp_port}/yugabyte")

    assert isinstance(error, TryLater)
    assert "cannot be reached" in str(error)


async def test_of_several_hosts_one_that_answers_is_enough(curio: CurioDatabase, unused_tcp_port: int) -> None:
    dsn = curio.dsn.replace(curio.address, f"127.0.0.1:{unused_tcp_port},{curio.address}")

    assert (await look(dsn)).queued == 0


@pytest.mark.parametrize(("minutes", "is_stale"), [(9, False), (11, True)])
async def test_tables_that_no_node_has_looked_after_for_ten_minutes_say_nothing_of_now(
    curio: CurioDatabase, minutes: int, *, is_stale: bool
) -> None:
    curio.do(MACHINES + f"GRANT SELECT ON curio.harmony_machines TO {curio.reader}")
    curio.add("harmony_machines", {"last_contact": ago(minutes=minutes)}, {"last_contact": ago(hours=3)})

    if not is_stale:
        assert await look(curio.dsn)
        return
    error = await failure(curio.dsn)
    assert isinstance(error, BadResource)
    assert error.reason == "DemandStale"
    assert "no Curio node has been in contact with it for 11 min" in str(error)


@pytest.mark.parametrize("may_read", [True, False])
async def test_without_news_of_the_nodes_the_counts_stand(curio: CurioDatabase, *, may_read: bool) -> None:
    curio.do(MACHINES)
    if may_read:
        curio.do(f"GRANT SELECT ON curio.harmony_machines TO {curio.reader}")
    else:
        curio.add("harmony_machines", {"last_contact": ago(hours=3)})

    assert (await look(curio.dsn)).queued == 0


async def test_a_table_that_is_locked_is_given_up_and_leaves_nothing_running(curio: CurioDatabase) -> None:
    with curio.open() as somebody:
        somebody.execute("LOCK TABLE curio.harmony_task IN ACCESS EXCLUSIVE MODE")

        error = await failure(curio.dsn, look_seconds=0.3)

        assert isinstance(error, TryLater)
        assert "does not answer within 0.3 s" in str(error)
        eventually(lambda: curio.connections_of_the_reader() == 0, "the look has left nothing behind")


class Wire:
    """Stands between a look and the database, and can fall silent without hanging up."""

    def __init__(self, silent_after: bytes) -> None:
        self.port = 0
        self.silent = asyncio.Event()
        self._silent_after = silent_after

    async def carry(self, reader: Any, writer: Any, upstream: tuple[str, int]) -> None:
        """Answers are kept back once the client has said the words; the empty text is in everything."""
        there, to_server = await asyncio.open_connection(*upstream)
        said = b""

        async def answers() -> None:
            while chunk := await there.read(65_536):
                if not self.silent.is_set():
                    writer.write(chunk)

        back = asyncio.create_task(answers())
        try:
            while chunk := await reader.read(65_536):
                said += chunk
                if self._silent_after in said:
                    self.silent.set()
                to_server.write(chunk)
        finally:
            back.cancel()
            to_server.close()
            writer.close()


@asynccontextmanager
async def a_wire(to: str, *, silent_after: bytes) -> AsyncIterator[Wire]:
    host, _, port = to.partition(":")
    wire = Wire(silent_after)
    carried: set[asyncio.Task[None]] = set()

    def accept(reader: Any, writer: Any) -> None:
        carried.add(asyncio.create_task(wire.carry(reader, writer, (host, int(port)))))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        for task in carried:
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)


@pytest.mark.parametrize("silent_after", [b"", b"BEGIN", b"SELECT"], ids=["at once", "logged in", "asked"])
async def test_a_database_that_falls_silent_is_given_up_in_time(curio: CurioDatabase, silent_after: bytes) -> None:
    loop = asyncio.get_running_loop()
    async with a_wire(curio.address, silent_after=silent_after) as wire:
        began = loop.time()

        error = await failure(curio.dsn.replace(curio.address, f"127.0.0.1:{wire.port}"), look_seconds=0.5)

        assert isinstance(error, TryLater)
        assert "does not answer within 0.5 s" in str(error)
        assert loop.time() - began < 15


@pytest.mark.parametrize("silent_after", [b"", b"BEGIN", b"SELECT"], ids=["at once", "logged in", "asked"])
async def test_who_is_cancelled_while_the_database_is_silent_ends_at_once(
    curio: CurioDatabase, silent_after: bytes
) -> None:
    loop = asyncio.get_running_loop()
    async with a_wire(curio.address, silent_after=silent_after) as wire:
        looking = asyncio.create_task(look(curio.dsn.replace(curio.address, f"127.0.0.1:{wire.port}"), look_seconds=60))
        async with asyncio.timeout(MORE_THAN_ENOUGH_SECONDS):
            await wire.silent.wait()
        began = loop.time()

        looking.cancel()

        with pytest.raises(asyncio.CancelledError):
            await looking
        assert loop.time() - began < 15
