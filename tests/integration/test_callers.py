"""Kubernetes in a caller's name, on a real API server: the caller's token goes out, and nothing of ours."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration

from fleetagent.adapters.callers import REMEMBERED_SECONDS, KubernetesCallers, callers_client
from fleetagent.dev.certificates import write_credentials
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.domain.records import AgentKey
from fleetagent.errors import BadRequest, Conflict, NotAllowed, NotSignedIn, TryLater
from support.manifests import Json
from support.people import READS, STEERS, a_person

MESSAGE = "fleetagent.dev/message"


class Clock:
    """Stands still until it is moved."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def configured(kubeconfig: Path) -> Configuration:
    """As the operator is, by this kubeconfig."""
    configuration = Configuration()
    await kube_config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    return configuration


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def callers(control_plane: ControlPlane, clock: Clock) -> AsyncIterator[KubernetesCallers]:
    """Of an operator that is the cluster's admin: whatever it sent in a caller's name would be allowed."""
    configuration = await configured(control_plane.kubeconfig)
    async with callers_client(configuration) as http:
        yield KubernetesCallers(http, clock=clock)


@pytest.fixture
def key(control_plane: ControlPlane, namespace: str) -> AgentKey:
    """A FleetAgent."""
    manifest = {
        "apiVersion": "fleetagent.dev/v1alpha1",
        "kind": "FleetAgent",
        "metadata": {"name": "porep", "namespace": namespace},
        "spec": {
            "target": {"proofsPerHour": 200},
            "model": {"baseURL": "http://127.0.0.1:9/v1", "name": "m"},
            "budget": {"fleetUsdPerHour": "4.00"},
            "fleet": {"vast": {"apiKeySecretRef": {"name": "v", "key": "k"}, "instance": {"image": "i"}}},
            "demand": {"static": {"active": True}},
        },
    }
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
    return AgentKey(namespace, "porep")


@pytest.fixture
def viewer(control_plane: ControlPlane, namespace: str) -> str:
    return a_person(control_plane, namespace, "viewer", verbs=READS, namespaces=(namespace,))


@pytest.fixture
def steerer(control_plane: ControlPlane, namespace: str) -> str:
    return a_person(control_plane, namespace, "steerer", verbs=STEERS, namespaces=(namespace,))


async def test_who_may_what_is_what_rbac_says(
    callers: KubernetesCallers, namespace: str, viewer: str, steerer: str
) -> None:
    assert await callers.may_read(viewer, namespace)
    assert not await callers.may_steer(viewer, namespace)
    assert await callers.may_steer(steerer, namespace)
    assert not await callers.may_read(viewer, "kube-system")
    assert not await callers.may_read(viewer, "")
    assert await callers.name(viewer) == f"system:serviceaccount:{namespace}:viewer"


async def test_a_caller_sees_and_changes_what_the_server_lets_them(
    callers: KubernetesCallers, key: AgentKey, viewer: str, steerer: str
) -> None:
    change = {"metadata": {"annotations": {MESSAGE: "hello"}}}

    with pytest.raises(NotAllowed, match="cannot patch"):
        await callers.patch(viewer, key, change)
    await callers.patch(steerer, key, change)
    found = await callers.resource(viewer, key)

    assert found is not None
    assert found["metadata"]["annotations"][MESSAGE] == "hello"
    assert [each["metadata"]["name"] for each in await callers.resources(viewer, key.namespace)] == ["porep"]
    with pytest.raises(NotAllowed, match="cannot list"):
        await callers.resources(viewer, "")
    managers = {each["manager"] for each in found["metadata"]["managedFields"]}
    assert "fleetagent-web" in managers


async def test_what_is_not_there_is_none(callers: KubernetesCallers, key: AgentKey, viewer: str) -> None:
    assert await callers.resource(viewer, AgentKey(key.namespace, "other")) is None


async def test_a_patch_of_what_somebody_else_has_changed_is_refused(
    callers: KubernetesCallers, key: AgentKey, steerer: str
) -> None:
    seen: Any = await callers.resource(steerer, key)
    await callers.patch(steerer, key, {"metadata": {"annotations": {MESSAGE: "first"}}})

    with pytest.raises(Conflict):
        await callers.patch(
            steerer,
            key,
            {"metadata": {"resourceVersion": seen["metadata"]["resourceVersion"], "annotations": {MESSAGE: "second"}}},
        )
    with pytest.raises(Conflict, match="any more"):
        await callers.patch(steerer, AgentKey(key.namespace, "other"), {})


async def test_what_the_schema_refuses_is_told_in_the_servers_words(
    callers: KubernetesCallers, key: AgentKey, steerer: str
) -> None:
    with pytest.raises(BadRequest, match=r"spec\.pause\.until"):
        await callers.patch(steerer, key, {"spec": {"pause": {"until": "tomorrow"}}})


@pytest.mark.parametrize("token", ["nonsense", "e30.e30.c2ln"])
async def test_a_token_that_the_server_does_not_know_is_nobody(
    callers: KubernetesCallers, key: AgentKey, token: str
) -> None:
    for call in (
        callers.name(token),
        callers.may_read(token, key.namespace),
        callers.resource(token, key),
        callers.resources(token, key.namespace),
        callers.patch(token, key, {"metadata": {"annotations": {MESSAGE: "x"}}}),
    ):
        with pytest.raises(NotSignedIn):
            await call


async def test_an_operator_with_a_certificate_shows_it_for_nobody(tmp_path: Path) -> None:
    ours = write_credentials(tmp_path / "ours")
    asking = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(ours.ca))
    asking.load_cert_chain(ours.serving_certificate, ours.serving_key)
    asking.verify_mode = ssl.CERT_OPTIONAL
    shown: list[object] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown.append(writer.get_extra_info("peercert"))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 201 Created\r\nContent-Length: 29\r\n\r\n{"status": {"allowed": true}}')
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=asking) as server:
        configuration = Configuration(host=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        configuration.ssl_ca_cert = str(ours.ca)
        configuration.cert_file, configuration.key_file = str(ours.serving_certificate), str(ours.serving_key)
        configuration.api_key = {"BearerToken": "Bearer the-operators-own"}
        async with callers_client(configuration) as http:
            assert "authorization" not in http.headers
            assert await KubernetesCallers(http).may_read("theirs", "ours")

    assert shown == [None]


async def test_what_a_proxy_gives_one_caller_to_be_known_by_is_sent_for_no_other() -> None:
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        head = b"HTTP/1.1 201 Created\r\nSet-Cookie: session=of-the-first; Path=/\r\nConnection: close\r\n"
        writer.write(head + b'Content-Length: 29\r\n\r\n{"status": {"allowed": true}}')
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        configuration = Configuration(host=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with callers_client(configuration) as http:
            callers = KubernetesCallers(http)
            for token in ("the-first", "the-second"):
                assert await callers.may_read(token, "ours")

    assert b"bearer the-second" in heard[1].lower()
    assert b"of-the-first" not in heard[1]


@pytest.mark.parametrize("namespace", ["../../x", "a/b", "..", "A", "a?b", "a%2fb", " ", "a" * 300])
async def test_a_namespace_that_cannot_be_is_asked_of_nobody(namespace: str) -> None:
    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    async with httpx.AsyncClient(transport=httpx.MockTransport(never), base_url="https://api") as http:
        callers = KubernetesCallers(http)

        assert not await callers.may_read("t", namespace)
        assert await callers.resource("t", AgentKey(namespace, "porep")) is None
        assert await callers.resource("t", AgentKey("ours", namespace)) is None
        with pytest.raises(Conflict):
            await callers.patch("t", AgentKey("ours", namespace), {})


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>a proxy's page</html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={}),
        httpx.Response(201, json={"status": {"allowed": "true"}}),
        httpx.Response(500, json={"message": "etcd is away"}),
        httpx.Response(429, json={"message": "too many requests"}),
        httpx.Response(302, headers={"location": "https://elsewhere"}),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
    ],
    ids=str,
)
async def test_whatever_else_is_answered_allows_nothing(answer: httpx.Response | Exception) -> None:
    def answering(_: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with httpx.AsyncClient(transport=httpx.MockTransport(answering), base_url="https://api") as http:
        callers = KubernetesCallers(http)
        allowed = False
        with contextlib.suppress(TryLater):
            allowed = await callers.may_read("t", "ours")

    assert not allowed


def reviews(asked: list[Json]) -> httpx.MockTransport:
    """An API server that allows everything, a little later."""

    async def answering(request: httpx.Request) -> httpx.Response:
        asked.append({"token": request.headers["authorization"]})
        await asyncio.sleep(0)
        return httpx.Response(201, json={"status": {"allowed": True}})

    return httpx.MockTransport(answering)


async def test_an_answer_is_remembered_for_half_a_minute_and_for_its_token_alone(clock: Clock) -> None:
    asked: list[Json] = []
    async with httpx.AsyncClient(transport=reviews(asked), base_url="https://api") as http:
        callers = KubernetesCallers(http, clock=clock)
        await asyncio.gather(*(callers.may_read("one", "ours") for _ in range(50)))
        clock.seconds = REMEMBERED_SECONDS - 0.1
        await callers.may_read("one", "ours")
        at_first = len(asked)
        await callers.may_read("two", "ours")
        await callers.may_read("one", "theirs")
        await callers.may_steer("one", "ours")
        others = len(asked)
        clock.seconds = REMEMBERED_SECONDS
        await callers.may_read("one", "ours")

    assert (at_first, others, len(asked)) == (1, 4, 5)


async def test_who_goes_away_while_it_is_asked_takes_the_answer_from_nobody(clock: Clock) -> None:
    asked: list[Json] = []
    async with httpx.AsyncClient(transport=reviews(asked), base_url="https://api") as http:
        callers = KubernetesCallers(http, clock=clock)
        impatient = asyncio.ensure_future(callers.may_read("one", "ours"))
        patient = asyncio.ensure_future(callers.may_read("one", "ours"))
        await asyncio.sleep(0)
        impatient.cancel()

        assert await patient
        assert len(asked) == 1
