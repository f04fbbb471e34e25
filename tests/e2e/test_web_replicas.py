"""Page and API of several replicas, and while the API server is away."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.cluster import a_control_plane
from support.people import STEERS, a_person
from support.replicas import Replica, start_two, with_peering
from support.stage import NAME, Stage, a_stage
from support.steering import apply_idle


@pytest.fixture
def own(database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage on a control plane that nobody else needs."""
    with a_control_plane() as cluster:
        namespace = f"test-{secrets.token_hex(5)}"
        cluster.kubectl("create", "namespace", namespace)
        with a_stage(cluster, namespace, database_url, tmp_path) as stage:
            yield stage


def program(replica: Replica, token: str) -> httpx.Client:
    """Somebody's, at this replica."""
    headers = {"authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"http://127.0.0.1:{replica.web_port}", headers=headers, trust_env=False, timeout=30)


def test_who_stands_by_serves_as_well_and_nothing_is_served_unasked_while_the_api_server_is_away(own: Stage) -> None:
    stage = own
    elder, younger = start_two(with_peering(stage), lease_seconds="15")
    apply_idle(stage)
    stage.wait_for_runs(1)
    token = a_person(stage.cluster, stage.home, "admin", verbs=STEERS, namespaces=(stage.namespace,))
    stranger = a_person(stage.cluster, stage.home, "stranger", verbs=(), namespaces=())
    path = f"/api/v1/namespaces/{stage.namespace}/agents/{NAME}"

    with program(younger, token) as client, program(younger, stranger) as nobody, program(elder, token) as other:
        assert younger.active is False
        assert client.get(f"{path}/runs").json()["items"] == other.get(f"{path}/runs").json()["items"] != []
        said = client.post(f"{path}/message", json={"text": "by way of the one that stands by"})
        assert said.status_code == 202
        told = "SELECT value FROM triggers WHERE kind = 'Feedback' AND words LIKE 'by way of%%'"
        stage.wait_for(lambda: stage.rows(told), "the one that works has heard it")

        with stage.cluster.without_apiserver():
            asked = nobody.get(path), client.get(path), client.post(f"{path}/request", json={})
            signed_in = client.post("/login", data={"token": stranger}, headers={"accept": "text/html"})

    assert [answer.status_code for answer in asked] == [503, 503, 503]
    assert all("the Kubernetes API server does not answer" in answer.json()["message"] for answer in asked)
    assert signed_in.status_code == 503
    assert "set-cookie" not in signed_in.headers
