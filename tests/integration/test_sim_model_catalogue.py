"""The wire shape of every fault in the catalogue: its status, and what stands in its body."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from fleetagent.sim.model.faults import CATALOGUE
from support.chat_bodies import body, system, user
from support.fault_wire import KEY, WHERE, WIRE
from support.servers import Model, a_model


@pytest.fixture(scope="module")
def server() -> Iterator[Model]:
    with a_model() as running:
        yield running


@pytest.fixture
async def http(server: Model) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=server.base_url, timeout=10, headers=headers) as client:
        yield client
    server.delete("faults")


async def ask(http: httpx.AsyncClient, fault: str, **more: Any) -> httpx.Response:
    await http.put("/_sim/faults", json={"name": fault})
    return await http.post("/v1/chat/completions", json={**body(), **WHERE.get(fault, {})}, **more)


def test_the_wire_of_every_fault_is_written_down() -> None:
    assert WIRE.keys() == CATALOGUE.keys()


@pytest.mark.parametrize("name", [name for name, shape in WIRE.items() if shape is not None])
async def test_a_fault_has_the_shape_that_the_catalogue_describes(
    http: httpx.AsyncClient, server: Model, name: str
) -> None:
    status, *pieces = WIRE[name] or ()
    before = server.get("state")["requests"]

    answer = await ask(http, name)

    assert answer.status_code == status
    text = answer.content.decode(errors="replace")
    assert [piece for piece in pieces if piece not in text] == [], text[:2_000]
    unconcerned = {"A33/mirror", "A35", "A35/reasoning", "A35/constraint"}
    assert [r["fault"] for r in server.requests(after=before)] == [None if name in unconcerned else name]


@pytest.mark.parametrize("name", ["A19/eof", "A41"])
async def test_a_connection_that_is_cut_is_cut(http: httpx.AsyncClient, name: str) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(http, name)

    assert (await http.post("/v1/chat/completions", json=body())).status_code == 200


@pytest.mark.parametrize("name", ["A42", "B35/silence", "B35/slow", "B15/timeout"])
async def test_an_answer_that_never_comes_whole_runs_into_the_time_limit(http: httpx.AsyncClient, name: str) -> None:
    with pytest.raises(httpx.ReadTimeout):
        await ask(http, name, timeout=0.15)

    assert (await http.post("/v1/chat/completions", json=body())).status_code == 200


async def test_azures_headers_say_nothing(http: httpx.AsyncClient) -> None:
    answers = [await ask(http, name) for name in ("A15", "A15/zero")]

    assert [a.headers["x-ratelimit-remaining-tokens"] for a in answers] == ["-1", "0"]
    assert not any("retry-after" in a.headers for a in answers)


async def test_patience_is_asked_for_in_every_form(http: httpx.AsyncClient) -> None:
    hour, date, cooling = [await ask(http, name) for name in ("B35/hour", "B35/date", "A17")]

    assert hour.headers["retry-after"] == "3600"
    assert date.headers["retry-after"].endswith("GMT")
    assert cooling.headers["retry-after"] == "1"


async def test_old_vllm_refuses_the_new_name_of_the_output_limit(http: httpx.AsyncClient) -> None:
    await http.put("/_sim/faults", json={"name": "A33/mirror"})
    request = {name: value for name, value in body().items() if name != "max_tokens"}
    refused = await http.post("/v1/chat/completions", json={**request, "max_completion_tokens": 5})

    assert refused.status_code == 400
    assert "extra_forbidden" in refused.text
    assert "max_completion_tokens" in refused.text


async def test_a_fault_that_does_not_concern_a_request_waits_for_one_that_it_does(http: httpx.AsyncClient) -> None:
    await http.put("/_sim/faults", json={"name": "A32"})
    fine = await http.post("/v1/chat/completions", json=body())
    refused = await http.post("/v1/chat/completions", json=body(system(), user("one"), user("two")))

    assert (fine.status_code, refused.status_code) == (200, 400)


async def test_a_fault_may_begin_later(http: httpx.AsyncClient) -> None:
    await http.put("/_sim/faults", json={"name": "A18", "after": 2})
    answers = [(await http.post("/v1/chat/completions", json=body())).status_code for _ in range(4)]

    assert answers == [200, 200, 503, 200]


async def test_usage_sticks_at_the_window_of_a_server_that_clips(http: httpx.AsyncClient) -> None:
    counts = []
    for words in (2_000, 4_000):
        await http.put("/_sim/faults", json={"name": "A10"})
        answer = await http.post("/v1/chat/completions", json=body(system(), user("word " * words)))
        counts.append(answer.json()["usage"]["prompt_tokens"])

    assert counts == [2048, 2048]


async def test_an_answer_of_ten_megabytes_is_not_kept_in_the_record(http: httpx.AsyncClient) -> None:
    await ask(http, "B49/huge")

    kept = (await http.get("/_sim/requests")).json()[-1]["answer"]
    assert isinstance(kept, str)
    assert kept.endswith("bytes, not kept)")


async def test_the_catalogue_tells_people_what_happens(http: httpx.AsyncClient) -> None:
    entries = {entry["name"]: entry for entry in (await http.get("/_sim/faults")).json()}

    assert entries.keys() == CATALOGUE.keys()
    assert all(entry["what"] and entry["server"] for entry in entries.values())
    assert json.dumps(entries["A18"]) == json.dumps(
        {"name": "A18", "server": "llama.cpp", "what": "the model is being loaded"}
    )
