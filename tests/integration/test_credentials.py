"""In a pod: the ServiceAccount's files are read again by every client, each minute and when a token is refused."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from kubernetes.aio.client import CoreV1Api
from kubernetes.aio.client.exceptions import ApiException

from fleetagent.bootstrap.credentials import READ_AGAIN_SECONDS, Credentials
from fleetagent.bootstrap.kubeapi import Kubernetes, open_kubernetes
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.entrypoints.signs import Signs
from support.proxy import ApiProxy, Seen, a_proxy, token_in
from support.stage import ACCOUNT, admit


@pytest.fixture
def proxy(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiProxy]:
    """Where the pod's environment says that the API server is."""
    with a_proxy(control_plane) as running:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(running.port))
        yield running


@dataclass
class Pod:
    """What a process in a pod has: files of its account, clients, and a clock that the test moves."""

    control_plane: ControlPlane
    proxy: ApiProxy
    namespace: str
    home: str
    account: Path
    kubernetes: Kubernetes
    kopf: aiohttp.ClientSession
    seconds: float = 0.0

    def token(self) -> str:
        return (self.account / "token").read_text()

    def replace_token(self) -> str:
        """As a kubelet does; the old one stays good until it expires."""
        write_token(self.control_plane, self.home, self.account)
        return self.token()

    async def call_all(self) -> None:
        """One call of our own client, and one as kopf makes them."""
        await CoreV1Api(self.kubernetes.api).read_namespaced_secret("vast", self.namespace)
        url = (
            f"https://127.0.0.1:{self.proxy.port}/apis/fleetagent.dev/v1alpha1/namespaces/{self.namespace}/fleetagents"
        )
        async with self.kopf.get(url) as answer:
            answer.raise_for_status()

    def sent(self) -> list[str]:
        """The tokens of what went by since the last time that this was asked."""
        tokens = [seen.token for seen, _ in self.proxy.seen]
        self.proxy.seen.clear()
        return tokens


def write_token(control_plane: ControlPlane, home: str, account: Path) -> None:
    next_token = account / "next"
    next_token.write_text(token_in(control_plane.kubeconfig_for(ACCOUNT, home)))
    next_token.replace(account / "token")


@pytest.fixture
async def pod(control_plane: ControlPlane, namespace: str, proxy: ApiProxy, tmp_path: Path) -> AsyncIterator[Pod]:
    home = admit(control_plane, namespace)
    (tmp_path / "namespace").write_text(home)
    (tmp_path / "ca.crt").write_text(control_plane.ca_path.read_text())
    write_token(control_plane, home, tmp_path)
    pods: list[Pod] = []

    def clock() -> float:
        return pods[0].seconds if pods else 0.0

    async with AsyncExitStack() as stack:
        credentials = Credentials(account=tmp_path, clock=clock)
        kubernetes = await open_kubernetes(stack, (namespace,), credentials)
        info = await kubernetes.login(Signs((namespace,), 600).notice)
        session = await stack.enter_async_context(info.aiohttp_session)
        pods.append(Pod(control_plane, proxy, namespace, home, tmp_path, kubernetes, session))
        await pods[0].call_all()
        assert set(pods[0].sent()) == {pods[0].token()}
        yield pods[0]
    control_plane.kubectl("delete", "namespace", home, "--wait=false")


def test_home_is_the_pod_s_namespace(pod: Pod) -> None:
    assert pod.kubernetes.home == pod.home


async def test_a_refused_token_is_replaced_by_what_the_file_holds_and_nobody_notices(pod: Pod) -> None:
    old = pod.token()
    new = pod.replace_token()

    def expired(seen: Seen) -> bool:
        return seen.token == old

    with pod.proxy.refusing(401, expired):
        await pod.call_all()
        assert pod.sent() == [old, new, new]


async def test_a_token_is_read_again_each_minute_though_the_old_one_is_still_good(pod: Pod) -> None:
    old = pod.token()
    new = pod.replace_token()

    await pod.call_all()
    assert set(pod.sent()) == {old}
    pod.seconds += READ_AGAIN_SECONDS + 1
    await pod.call_all()
    assert set(pod.sent()) == {new}


async def test_while_the_file_cannot_be_read_the_old_token_stays_in_use(
    pod: Pod, caplog: pytest.LogCaptureFixture
) -> None:
    old = pod.token()
    (pod.account / "token").unlink()
    pod.seconds += READ_AGAIN_SECONDS + 1

    await pod.call_all()

    assert set(pod.sent()) == {old}
    assert "the old credentials stay in use" in caplog.text


async def test_a_refusal_for_good_is_asked_once(pod: Pod) -> None:
    with pod.proxy.refusing(401, lambda _: True), pytest.raises(ApiException, match="401"):
        await CoreV1Api(pod.kubernetes.api).read_namespaced_secret("vast", pod.namespace)

    assert pod.sent() == [pod.token()]
