"""Who may: a real API server's RBAC decides what page and API show and do, for each caller by their own token."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from fleetagent.adapters.callers import REMEMBERED_SECONDS
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.inhabited import an_empty_stage
from support.people import READS, STEERS, a_person
from support.stage import NAME, Stage, eventually

LISTS = ("runs", "sessions", "conversation", "compactions", "actions", "wakes", "alerts", "machines", "hosts", "spend")
BELOW = ("", "/runs/1", "/sessions/1", "/sessions/1/export", "/samples", *(f"/{each}" for each in LISTS))
VIEWS = ("", "/runs", "/conversation", "/fleet", "/spend", "/alerts", "/actions")
VERBS: dict[str, dict[str, Any]] = {
    "request": {},
    "reset": {},
    "message": {"text": "prefer hosts in the EU"},
    "acknowledge": {"alert": "alert-1"},
    "approve": {"actions": ["action-1"]},
    "reject": {"actions": ["action-1"]},
    "pause": {"for": "2h"},
    "resume": {},
}


@dataclass
class Web:
    """An operator that watches two namespaces, and people of different rights."""

    stage: Stage
    other: str
    tokens: dict[str, str] = field(default_factory=dict)

    def client(self, who: str | None = None, **headers: str) -> httpx.Client:
        """Somebody's client, with their token."""
        base_url = f"http://127.0.0.1:{self.stage.web_port}"
        more = {} if who is None else {"authorization": f"Bearer {self.tokens[who]}"}
        return httpx.Client(base_url=base_url, headers={**more, **headers}, trust_env=False, timeout=20)

    def browser(self) -> httpx.Client:
        """One that takes pages and keeps cookies."""
        return self.client(accept="text/html")

    def path(self, below: str = "", namespace: str | None = None) -> str:
        """Of the agent in the API."""
        return f"/api/v1/namespaces/{namespace or self.stage.namespace}/agents/{NAME}{below}"

    def resource(self) -> dict[str, Any]:
        """What people can change of it; kopf keeps notes of its own beside that."""
        found = self.stage.resource()
        said = found["metadata"].get("annotations") or {}
        ours = {name: value for name, value in said.items() if name.startswith("fleetagent.dev/")}
        return {"annotations": ours, "spec": found["spec"]}


@pytest.fixture(scope="module")
def web(
    control_plane: ControlPlane,
    postgres_server: EmbeddedPostgres,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Web]:
    """One stage for all of them: nobody changes what another one reads."""
    folder = tmp_path_factory.mktemp("web")
    with an_empty_stage(control_plane, postgres_server, migrated_template, folder) as (stage, other):
        web = Web(stage, other)
        both, home = (stage.namespace, other), stage.home
        for name, verbs, namespaces in (
            ("admin", STEERS, both),
            ("viewer", READS, both),
            ("neighbour", STEERS, (other,)),
            ("stranger", STEERS, ()),
            ("leaver", STEERS, both),
            ("demoted", STEERS, both),
        ):
            web.tokens[name] = a_person(control_plane, home, name, verbs=verbs, namespaces=namespaces)
        stage.start_operator()
        stage.apply(spec={"mode": "DryRun", "schedule": {"interval": "1h"}})
        stage.wait_for_runs(1)
        yield web


def test_nobody_reads_or_does_anything_without_a_token(web: Web) -> None:
    before = web.resource()
    with web.client() as nobody:
        reads = [nobody.get(web.path(below)) for below in BELOW]
        reads += [nobody.get(f"/agents/{web.stage.namespace}/{NAME}{view}") for view in VIEWS]
        reads += [nobody.get(path) for path in ("/", "/api/v1/agents", "/api/v1/openapi.json", "/api/v1", "/nowhere")]
        verbs = [nobody.post(web.path(f"/{verb}"), json=body) for verb, body in VERBS.items()]
        verbs += [
            nobody.post(f"/agents/{web.stage.namespace}/{NAME}/do/{verb}", data=body) for verb, body in VERBS.items()
        ]

    assert {answer.status_code for answer in (*reads, *verbs)} == {401}
    assert all(NAME not in answer.text for answer in (*reads, *verbs))
    assert web.resource() == before


def test_a_token_that_the_api_server_did_not_make_opens_nothing(web: Web) -> None:
    head, payload, signature = web.tokens["admin"].split(".")
    forged = f"{head}.{payload}.{signature[::-1]}"
    with web.client(authorization=f"Bearer {forged}") as forger, web.browser() as browser:
        read = forger.get(web.path())
        signed_in = browser.post("/login", data={"token": forged})

    assert (read.status_code, signed_in.status_code) == (401, 401)
    assert "set-cookie" not in signed_in.headers


def test_the_operators_own_token_is_sent_for_nobody(web: Web) -> None:
    with web.client("stranger") as stranger:
        answers = [stranger.get(web.path(below)) for below in BELOW]
        listed = stranger.get("/api/v1/agents")

    assert {answer.status_code for answer in answers} == {403}
    assert listed.json()["items"] == []


def test_who_reads_sees_everything_and_steers_nothing(web: Web) -> None:
    before = web.resource()
    with web.client("viewer") as viewer:
        reads = [viewer.get(web.path(below)) for below in BELOW]
        verbs = [viewer.post(web.path(f"/{verb}"), json=body) for verb, body in VERBS.items()]

    assert {answer.status_code for answer in reads} == {200}
    assert {(answer.status_code, answer.json()["error"]) for answer in verbs} == {(403, "NotAllowed")}
    assert "cannot patch" in verbs[0].json()["message"]
    assert web.resource() == before


def test_who_may_steer_writes_what_kubectl_would(web: Web) -> None:
    with web.client("admin") as admin:
        said = {verb: admin.post(web.path(f"/{verb}"), json=body) for verb, body in VERBS.items() if verb != "resume"}
        paused = web.resource()["spec"]["pause"]
        resumed = admin.post(web.path("/resume"), json={})
    found = web.resource()

    assert {answer.status_code for answer in (*said.values(), resumed)} == {202}
    assert found["annotations"]["fleetagent.dev/message"] == "prefer hosts in the EU"
    assert found["annotations"]["fleetagent.dev/approve"] == "action-1"
    assert paused["directions"] == ["Up"]
    assert "pause" not in found["spec"]
    written = said["message"].json()["written"]
    assert written == {"metadata": {"annotations": {"fleetagent.dev/message": "prefer hosts in the EU"}}}


def test_a_namespace_user_sees_and_steers_that_namespace_alone(web: Web) -> None:
    before = web.resource()
    with web.client("neighbour") as neighbour:
        theirs = neighbour.get(web.path(namespace=web.other))
        reads = [neighbour.get(web.path(below)) for below in BELOW]
        reads.append(neighbour.get("/api/v1/agents", params={"namespace": web.stage.namespace}))
        missing = neighbour.get(web.path(namespace="no-such-namespace"))
        verbs = [neighbour.post(web.path(f"/{verb}"), json=body) for verb, body in VERBS.items()]
        listed = neighbour.get("/api/v1/agents").json()["items"]
        page = neighbour.get("/", headers={"accept": "text/html"})

    assert theirs.status_code == 404  # it is theirs to know that there is no such agent
    assert {answer.status_code for answer in (*reads, *verbs, missing)} == {403}
    assert missing.text.replace("no-such-namespace", "N") == reads[0].text.replace(web.stage.namespace, "N")
    assert [row["namespace"] for row in listed if row["namespace"] != web.other] == []
    assert web.stage.namespace not in page.text
    assert web.resource() == before


def test_a_person_signs_in_steers_by_the_page_and_signs_out(web: Web) -> None:
    with web.browser() as browser:
        sent = browser.get(f"/agents/{web.stage.namespace}/{NAME}")
        signed_in = browser.post("/login", data={"token": web.tokens["admin"], "next": sent.headers["location"][12:]})
        page = browser.get(f"/agents/{web.stage.namespace}/{NAME}")
        (csrf,) = set(re.findall(r'name="csrf" value="([^"]+)"', page.text))
        blind = browser.post(f"/agents/{web.stage.namespace}/{NAME}/do/message", data={"text": "by a stranger's site"})
        said = browser.post(
            f"/agents/{web.stage.namespace}/{NAME}/do/message", data={"text": "by the page", "csrf": csrf}
        )
        message = web.resource()["annotations"]["fleetagent.dev/message"]
        browser.post("/logout", data={"csrf": csrf})
        after = browser.get("/")

    assert (signed_in.status_code, page.status_code) == (303, 200)
    assert web.tokens["admin"] not in page.text
    assert (blind.status_code, said.status_code) == (403, 303)
    assert message == "by the page"
    assert after.headers["location"].startswith("/login")


def test_a_reader_is_shown_no_button(web: Web) -> None:
    with web.client("viewer", accept="text/html") as viewer, web.client("admin", accept="text/html") as admin:
        read, steered = (each.get(f"/agents/{web.stage.namespace}/{NAME}").text for each in (viewer, admin))

    assert "/do/" in steered
    assert "/do/" not in read


def test_people_who_approve_at_once_are_all_heard(web: Web) -> None:
    names = [f"action-{7_000_000 + n}" for n in range(4)]

    def approve(name: str) -> int:
        with web.client("admin") as client:
            return client.post(web.path("/approve"), json={"actions": [name]}).status_code

    with ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(approve, names))

    assert answers == [202] * len(names)
    web.stage.wait_for(
        lambda: all(name in " ".join(web.stage.events("NothingWaiting")) for name in names), "each gets an answer"
    )


def test_words_that_follow_each_other_at_once_are_all_heard(web: Web) -> None:
    said = [f"word {n}" for n in range(4)]
    with web.client("admin") as admin:
        answers = [admin.post(web.path("/message"), json={"text": words}) for words in said]
    heard = "SELECT words FROM triggers WHERE kind = 'Feedback' AND words LIKE 'word %%' ORDER BY id"

    assert [answer.status_code for answer in answers] == [202] * len(said)
    web.stage.wait_for(lambda: len(web.stage.rows(heard)) >= len(said), "all of them were heard")
    assert [row["words"] for row in web.stage.rows(heard)] == said


def test_a_right_that_is_taken_away_and_an_account_that_is_deleted_are_gone_within_half_a_minute(web: Web) -> None:
    runs = f"/agents/{web.stage.namespace}/{NAME}/runs"
    with web.client("demoted") as demoted, web.client("leaver") as leaver, web.browser() as browser:

        def answers() -> list[int]:
            asked = demoted.get(web.path("/runs")), leaver.get(web.path("/runs")), browser.get(runs)
            return [answer.status_code for answer in asked]

        browser.post("/login", data={"token": web.tokens["leaver"]})
        had = answers()
        for namespace in (web.stage.namespace, web.other):
            web.stage.cluster.kubectl("-n", namespace, "delete", "rolebinding", f"{web.stage.home}-demoted")
        web.stage.cluster.kubectl("-n", web.stage.home, "delete", "serviceaccount", "leaver")
        verb = demoted.post(web.path("/request"), json={})  # the API server itself is asked
        within_s = REMEMBERED_SECONDS + 15  # the API server remembers tokens for ten seconds
        eventually(lambda: answers() == [403, 401, 303], "all are refused", within_s=within_s, every_s=0.5)

    assert had == [200, 200, 200]
    assert verb.status_code == 403


def test_no_token_is_in_the_log(web: Web) -> None:
    said = web.stage.log()

    for token in web.tokens.values():
        assert token not in said
        assert token.rpartition(".")[2] not in said
