"""What a resource's URL may make the operator open. Addresses are literals: no test asks a name server."""

import asyncio
import threading
from typing import Any

import pytest

from fleetagent.adapters.reach import Reach
from fleetagent.errors import BadResource, TryLater

FIELD = "spec.model.baseURL"


async def refusal(url: str, *allowed_hosts: str) -> BadResource | None:
    """Why this URL is refused, or None."""
    try:
        await Reach(allowed_hosts).check(url, field=FIELD, condition="ModelAvailable")
    except BadResource as error:
        return error
    return None


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "http://127.9.9.9/v1",
        "http://localhost/v1",
        "http://LOCALHOST:8000/v1",
        "http://2130706433/v1",
        "http://0x7f.1/v1",
        "http://0.0.0.0/v1",
        "http://[::1]:8000/v1",
        "http://[::ffff:127.0.0.1]/v1",
        "http://[2002:7f00:1::]/v1",
        "http://[::]/v1",
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/v1",
        "http://[64:ff9b::a9fe:a9fe]/v1",
        "http://[::ffff:169.254.169.254]/v1",
        "http://224.0.0.1/v1",
    ],
)
async def test_loopback_and_link_local_addresses_are_refused_in_every_spelling(url: str) -> None:
    error = await refusal(url)

    assert error is not None
    assert (error.condition, error.reason) == ("ModelAvailable", "HostNotAllowed")
    assert str(error).startswith("spec.model.baseURL: host ")
    assert "FLEETAGENT_ALLOWED_HOSTS" in str(error)


@pytest.mark.parametrize("url", ["http://10.0.0.7:8000/v1", "http://192.168.1.1/", "https://[fd00::1]/v1"])
async def test_private_addresses_are_open_because_clusters_live_there(url: str) -> None:
    assert await refusal(url) is None


@pytest.mark.parametrize(
    ("url", "allowed_hosts"),
    [
        ("http://127.0.0.1:8000/v1", ["127.0.0.1"]),
        ("http://127.0.0.1:8000/v1", ["vllm.svc", "127.0.0.1:8000"]),
        ("http://VLLM.svc/v1", ["vllm.SVC"]),
        ("http://vllm.svc/v1", ["vllm.svc:80"]),
        ("https://vllm.svc/v1", ["vllm.svc:443"]),
        ("http://[::1]:8000/v1", ["[::1]"]),
        ("http://[::1]:8000/v1", ["::1"]),
        ("http://[::1]:8000/v1", ["[::1]:8000"]),
    ],
)
async def test_a_listed_host_is_open_even_on_loopback(url: str, allowed_hosts: list[str]) -> None:
    assert await refusal(url, *allowed_hosts) is None


@pytest.mark.parametrize(
    ("url", "allowed_hosts"),
    [
        ("http://10.0.0.7/v1", ["vllm.svc"]),
        ("http://vllm.svc:8001/v1", ["vllm.svc:8000"]),
        ("http://vllm.svc.evil.example/v1", ["vllm.svc"]),
        ("http://vllm.svc@evil.example/v1", ["vllm.svc"]),
        ("http://[::1]:8001/v1", ["[::1]:8000"]),
    ],
)
async def test_a_list_is_the_whole_rule(url: str, allowed_hosts: list[str]) -> None:
    error = await refusal(url, *allowed_hosts)

    assert error is not None
    assert error.reason == "HostNotAllowed"
    assert "is not in the installation's FLEETAGENT_ALLOWED_HOSTS" in str(error)


@pytest.mark.parametrize("url", ["http://vllm.svc:99999/v1", "http:///v1", "http://[::1/v1"])
async def test_what_is_no_url_is_a_problem_of_its_field(url: str) -> None:
    error = await refusal(url)

    assert error is not None
    assert error.reason == "BadURL"
    assert str(error).startswith("spec.model.baseURL: ")


async def test_a_name_server_that_is_silent_about_one_host_takes_one_thread_and_holds_up_nobody_else() -> None:
    speaks, asked = threading.Event(), []

    def look_up(host: str, port: int, *_: object) -> list[Any]:
        asked.append(host)
        if host == "silent.test":
            speaks.wait(30)
            raise OSError("no answer at last")
        return [(None, None, None, "", ("192.0.2.1", port))]

    reach = Reach(lookup_seconds=0.05, look_up=look_up)
    try:
        for _ in range(3):
            stuck = [reach.check("http://silent.test/", field=FIELD, condition="ModelAvailable") for _ in range(20)]
            said = {repr(error) for error in await asyncio.gather(*stuck, return_exceptions=True)}
            because = f"{FIELD}: the name server says nothing of host 'silent.test' within 0.05 s"
            assert said == {repr(TryLater(because))}
            await reach.check("http://well.test/", field=FIELD, condition="ModelAvailable")
    finally:
        speaks.set()

    assert asked.count("silent.test") == 1
