"""What rented machines report, over HTTP and into Postgres: only forward, a repeat is a no-op, strangers are nobody."""

import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.adapters.postgres.workers import PostgresWorkers
from fleetagent.domain.fleet import Phase
from fleetagent.domain.records import AgentKey, Run
from fleetagent.domain.settlement import Change
from fleetagent.entrypoints.listen import listening
from fleetagent.entrypoints.workers import WorkerEndpoint
from support.fleets import an_instance, as_listed
from support.ledger import launched
from support.stores import KEY, NOON, Process, a_process

TOKEN = "abcdefghijklmnopqrstuvwxyz012345"


@dataclass
class Nudges:
    """Stands for the keepers: remembers whom it was asked to look at."""

    heard: list[AgentKey] = field(default_factory=list)

    def nudge(self, key: AgentKey) -> None:
        self.heard.append(key)


@dataclass
class Workers:
    """The endpoint on a port of its own, with one machine that waits for its worker and needs 50 proofs/h."""

    http: httpx.AsyncClient
    process: Process
    run: Run
    nudges: Nudges

    async def say(self, call: str, body: Any = None, token: str = TOKEN, **raw: Any) -> httpx.Response:
        sent = raw or {"content": json.dumps(body)}  # as many clients write it: every letter is ASCII on the wire
        return await self.http.post(f"/workers/{token}/{call}", **sent)

    async def register(self) -> str:
        answer = await self.say("register", {"label": "C.9001", "min_rate": 50})
        uuid: str = answer.json()["uuid"]
        return uuid

    async def machine(self) -> dict[str, Any]:
        (row,) = await self.process.rows("SELECT * FROM instances")
        return row

    async def news(self) -> list[str]:
        return [row["words"] for row in await self.process.rows("SELECT words FROM triggers ORDER BY id")]


@pytest.fixture
async def workers(database_url: str) -> AsyncIterator[Workers]:
    async with a_process(database_url) as process:
        run = await process.start()
        await launched(process, run, worker_token_hash=token_hash(TOKEN), min_rate=50)
        nudges, clock = Nudges(), (NOON + timedelta(seconds=n) for n in itertools.count())
        app = WorkerEndpoint(PostgresWorkers(process.database), nudges, lambda: next(clock)).app()
        async with (
            listening(app, "127.0.0.1", 0, what="workers") as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http,
        ):
            yield Workers(http, process, run, nudges)


async def test_a_worker_goes_from_registered_to_proving_and_each_step_said_twice_is_said_once(workers: Workers) -> None:
    answers = []
    uuid = await workers.register()
    for call, more in (("register", {}), ("param-done", {}), ("bench-done", {"rate": 77.5}), ("running", {})):
        body = {"uuid": uuid, "label": "C.9001", "min_rate": 50, **more}
        answers += [(await workers.say(call, body)).json() for _ in range(2)]

    assert answers[0] == answers[1] == {"uuid": uuid, "runner_id": answers[0]["runner_id"]}
    assert answers[2:] == [{"ok": True}] * 2 + [{"ok": True, "passed": True}] * 2 + [{"ok": True}] * 2
    machine = await workers.machine()
    assert [phase for phase, _ in machine["timeline"]] == ["requested", "registered", "benchmarking", "proving"]
    assert (machine["measured_rate"], machine["worker_label"]) == (77.5, "C.9001")
    assert await workers.news() == ["machine 9001 proves at 77.5 p/h (expected 95)"]
    assert (await workers.process.rows("SELECT rates FROM hosts"))[0]["rates"] == [77.5]
    assert set(workers.nudges.heard) == {KEY}


async def test_a_benchmark_below_the_minimum_fails_the_machine_for_good(workers: Workers) -> None:
    uuid = await workers.register()

    answers = [(await workers.say("bench-done", {"uuid": uuid, "rate": rate})).json() for rate in (49.9, 49.9, 200)]
    again = await workers.register()
    await workers.say("param-done", {"uuid": uuid})
    late = (await workers.say("bench-done", {"uuid": uuid, "rate": 200})).json()

    assert [*answers, late] == [{"ok": True, "passed": False}] * 4
    assert again == uuid
    machine = await workers.machine()
    assert machine["failure"] == "benchmark of 49.9 p/h is below the minimum of 50"
    assert machine["phase"] != "proving"
    assert len(await workers.news()) == 1


async def test_a_machine_that_makes_nothing_is_failed_also_where_no_minimum_is_asked(workers: Workers) -> None:
    async with workers.process.database.transaction() as connection:
        await connection.execute(sa.text("UPDATE instances SET min_rate = 0"))
    uuid = await workers.register()

    answer = (await workers.say("bench-done", {"uuid": uuid, "rate": 0})).json()

    assert answer == {"ok": True, "passed": False}
    machine = await workers.machine()
    assert (machine["phase"], machine["failure"]) == ("registered", "benchmark of 0 p/h: it makes no proofs")


async def test_what_a_host_was_measured_at_is_what_to_expect_of_it_next_time(workers: Workers) -> None:
    for rate in (80, 90):
        await workers.say("bench-done", {"uuid": await workers.register(), "rate": rate})
        await workers.register()  # it restarts, and will be measured again

    pulse = await workers.process.ledger.pulse(workers.run.agent_id, 0, NOON)

    assert pulse.host_rates == {("m1", "RTX 5090", 1): 85.0}


@pytest.mark.parametrize("rate", [501, 99_999.0])
async def test_a_rate_that_no_such_machine_makes_fails_it_and_is_not_remembered(workers: Workers, rate: float) -> None:
    answer = (await workers.say("bench-done", {"uuid": await workers.register(), "rate": rate})).json()

    assert answer == {"ok": True, "passed": False}
    assert (await workers.machine())["failure"] == f"benchmark of {rate:g} p/h is more than 1x RTX 5090 can make"
    assert (await workers.process.ledger.pulse(workers.run.agent_id, 0, NOON)).host_rates == {}


async def test_benchmarks_of_three_hosts_say_what_machines_like_them_make_until_they_are_old(workers: Workers) -> None:
    for number, rate in enumerate((70, 80, 100), 2):
        async with workers.process.database.transaction() as connection:
            await connection.execute(sa.text("UPDATE instances SET machine_id = :host"), {"host": f"m{number}"})
        await workers.say("bench-done", {"uuid": await workers.register(), "rate": rate})
        await workers.register()

    pulse = await workers.process.ledger.pulse(workers.run.agent_id, 0, NOON)
    later = await workers.process.ledger.pulse(workers.run.agent_id, 0, NOON + timedelta(days=31))

    assert pulse.kind_rates == {("RTX 5090", 1, 512): 80.0}
    assert (later.host_rates, later.kind_rates) == ({}, {})


async def test_benchmarks_of_a_bad_image_keep_a_kind_of_machine_out_for_days_and_not_for_ever(workers: Workers) -> None:
    for number in range(2, 5):
        async with workers.process.database.transaction() as connection:
            await connection.execute(sa.text("UPDATE instances SET machine_id = :host"), {"host": f"m{number}"})
        await workers.say("bench-done", {"uuid": await workers.register(), "rate": 51})
        await workers.register()

    now, in_some_days = NOON, NOON + timedelta(days=3, hours=1)
    pulse = await workers.process.ledger.pulse(workers.run.agent_id, 0, now)
    later = await workers.process.ledger.pulse(workers.run.agent_id, 0, in_some_days)

    assert pulse.kind_rates == {("RTX 5090", 1, 512): 51.0}
    assert later.kind_rates == {}, "of a kind that is too slow to be rented nobody would measure another one"
    assert later.host_rates == pulse.host_rates, "each of these hosts is known for what it is"


async def test_the_minimum_itself_is_enough(workers: Workers) -> None:
    uuid = await workers.register()

    answer = (await workers.say("bench-done", {"uuid": uuid, "rate": 50})).json()

    assert answer == {"ok": True, "passed": True}
    assert (await workers.machine())["phase"] == "proving"


async def test_a_proving_machine_that_registers_again_has_restarted(workers: Workers) -> None:
    uuid = await workers.register()
    await workers.say("bench-done", {"uuid": uuid, "rate": 80})

    assert await workers.register() == uuid
    assert (await workers.say("running", {"uuid": uuid})).json() == {"ok": False}
    machine = await workers.machine()
    assert machine["phase"] == "registered"
    assert await workers.news() == ["machine 9001 proves at 80 p/h (expected 95)", "machine 9001 has restarted"]

    await workers.say("param-done", {"uuid": uuid})
    await workers.say("bench-done", {"uuid": uuid, "rate": 90})
    assert (await workers.machine())["measured_rate"] == 90


@pytest.mark.parametrize("phase", ["stopping", "gone", "failed"])
async def test_a_machine_that_has_ended_is_not_revived_by_a_late_report(workers: Workers, phase: str) -> None:
    uuid = await workers.register()
    async with workers.process.database.transaction() as connection:
        await connection.execute(sa.text("UPDATE instances SET phase = :phase"), {"phase": phase})

    late = [
        await workers.say(call, {"uuid": uuid, "label": "C.9001", "rate": 90})
        for call in ("register", "param-done", "bench-done", "running")
    ]

    assert [answer.status_code for answer in late] == [404] * 4
    assert ((await workers.machine())["phase"], await workers.news()) == (phase, [])


async def test_who_does_not_know_the_secret_is_nobody(workers: Workers) -> None:
    uuid = await workers.register()
    strangers = [
        await workers.say("register", {"label": "fa/0123456789ab/intent000001"}, token="x" * 32),
        await workers.say("register", {"label": "C.9001"}, token=token_hash(TOKEN)),
        await workers.say("bench-done", {"uuid": uuid, "rate": 90}, token="x" * 32),
        await workers.say("bench-done", {"uuid": str(uuid4()), "rate": 90}),
        await workers.say("running", {"uuid": "\x00\ud800'; --"}),
    ]

    assert [answer.status_code for answer in strangers] == [404] * 5
    assert TOKEN not in "".join(answer.text for answer in strangers)
    assert (await workers.machine())["phase"] == "registered"


async def test_a_rate_that_is_no_rate_is_refused_and_changes_nothing(workers: Workers) -> None:
    uuid = await workers.register()
    before = await workers.machine()

    for rate in (*('"80"', "null", "true", "-1", "1e9", '"NaN"', "[80]"), *("NaN", "Infinity", "1e400", "9" * 400)):
        answer = await workers.say("bench-done", content=f'{{"uuid": "{uuid}", "rate": {rate}}}')
        assert (answer.status_code, answer.json()) == (400, {"error": "rate must be a number of proofs per hour"}), rate

    assert await workers.machine() == before


async def test_a_body_that_makes_no_sense_is_a_400_that_says_why(workers: Workers) -> None:
    bodies = ["", "not json", "[]", "7", '{"label": 7}', '{"label": ""}', "{}", "[" * 9000, '{"label": "\xff"}'[:-3]]
    for content in (*bodies, '{"label": "' + "x" * 20_000 + '"}'):
        answer = await workers.say("register", content=content)
        assert answer.status_code == 400, content[:40]
        assert answer.json()["error"]

    assert (await workers.machine())["phase"] == "requested"


async def test_a_label_is_recorded_in_clean_letters_and_never_trusted(workers: Workers) -> None:
    await workers.say("register", {"label": "evil\x00\u202e\ud800" + "x" * 200})

    label = (await workers.machine())["worker_label"]
    assert label.startswith("evil")
    assert len(label) <= 100
    assert "\u202e" not in label


async def test_other_methods_and_paths_are_not_there(workers: Workers) -> None:
    assert (await workers.http.get(f"/workers/{TOKEN}/register")).status_code == 405
    assert (await workers.say("destroy", {})).status_code == 404
    assert (await workers.http.post("/workers/register", json={})).status_code == 404


async def test_a_worker_of_a_machine_that_was_adopted_after_the_ledger_was_lost_is_asked_to_begin_again(
    workers: Workers,
) -> None:
    """A 404 ends the worker for good, and with it a machine that proves."""
    token = "t" * 32
    machine = an_instance("77", Phase.LOADING)
    row = as_listed(machine, worker_url=f"https://fleet.example/workers/{token}")
    await workers.process.ledger.settle(workers.run.lease, [Change(machine, adopted=row)], NOON)
    of_the_lost_ledger = {"uuid": str(uuid4())}

    answer = await workers.say("running", of_the_lost_ledger, token)
    assert (answer.status_code, answer.json()) == (200, {"ok": False})
    answer = await workers.say("bench-done", {**of_the_lost_ledger, "rate": 90}, token)
    assert answer.json() == {"ok": False, "passed": True}

    registered = await workers.say("register", {"label": "C.77"}, token)
    assert (await workers.say("running", of_the_lost_ledger, token)).status_code == 404
    assert (await workers.say("param-done", {"uuid": registered.json()["uuid"]}, token)).json() == {"ok": True}
