"""What agents of one installation share of a model server, and what they do not."""

from typing import Any

import httpx2
import pytest

from fleetagent.adapters.metrics import Metrics
from fleetagent.bootstrap.worlds import RealWorlds
from fleetagent.errors import TryLater
from support.fakes import QuietCluster
from support.manifests import a_fleet_agent
from support.pursuit import asking

URL, OTHER_URL = "http://llm.svc/v1", "http://other.svc/v1"


class AnyReach:
    """Lets every address through."""

    async def check(self, url: str, **_: Any) -> None:
        """Nothing to say."""


class KeyPerNamespace(QuietCluster):
    """Each namespace has a key of its own."""

    async def secret(self, namespace: str, name: str, key: str) -> str:
        """A key that names its namespace."""
        return f"{name}-{key}-of-{namespace}"


def worlds(http: httpx2.AsyncClient) -> RealWorlds:
    nothing: Any = None
    reach: Any = AnyReach()
    return RealWorlds(
        cluster=KeyPerNamespace(),
        markets=nothing,
        http=nothing,
        model_http=http,
        reach=reach,
        metrics=Metrics(),
        worker_url=None,
        now=nothing,
    )


def an_agent(name: str, url: str = URL, namespace: str = "default") -> Any:
    model = {"baseURL": url, "apiKeySecretRef": {"name": "llm", "key": "key"}}
    return a_fleet_agent(name=name, namespace=namespace, spec={"model": model})


async def test_agents_with_one_server_and_key_share_its_back_off_and_others_do_not() -> None:
    asked: list[str] = []

    def busy(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.url.host} {request.headers['authorization'].rpartition('-')[2]}")
        return httpx2.Response(429, headers={"retry-after": "3000"}, json={"error": {"message": "slow down"}})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(busy)) as http:
        shared = worlds(http)
        for agent in (
            an_agent("one"),
            an_agent("two"),
            an_agent("three", namespace="elsewhere"),
            an_agent("four", url=OTHER_URL),
            an_agent("five", url=f"{URL}/"),
        ):
            model = await shared.model(agent)
            with pytest.raises(TryLater, match="slow down"):
                await model.reply(asking())

    assert asked == ["llm.svc default", "llm.svc elsewhere", "other.svc default"]


async def test_what_a_server_refuses_is_learnt_once_for_all_its_agents_of_one_key() -> None:
    bodies: list[bytes] = []

    def old(request: httpx2.Request) -> httpx2.Response:
        bodies.append(request.content)
        if b"tool_choice" in request.content:
            message = "Unrecognized request argument supplied: tool_choice"
            return httpx2.Response(400, json={"error": {"message": message}})
        return httpx2.Response(200, json={"choices": [{"message": {"content": "hold"}, "finish_reason": "stop"}]})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(old)) as http:
        shared = worlds(http)
        for team in ("a", "a", "a", "b"):  # each with a key of its own: a gateway may send it to another server
            model = await shared.model(an_agent("agent", namespace=f"team-{team}"))
            assert (await model.reply(asking())).text == "hold"

    assert [b"tool_choice" in body for body in bodies] == [True, False, False, False, True, False]
