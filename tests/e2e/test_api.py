"""The API beside an operator at work: the docs' examples as they stand, figures that agree with the database."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.inhabited import an_empty_stage
from support.people import STEERS, a_person
from support.stage import NAME, Stage
from support.steering import request_and_wait

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "api.md"
EXAMPLES = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def stage(
    control_plane: ControlPlane,
    postgres_server: EmbeddedPostgres,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("api")
    with an_empty_stage(control_plane, postgres_server, migrated_template, folder) as (stage, _):
        stage.start_operator()
        stage.apply(spec={"schedule": {"interval": "24h", "debounce": {"idle": "5m", "max": "1h"}}})
        stage.wait_for_target()
        stage.wait_for(lambda: stage.status()["fleet"]["onTheWay"] == 0, "all machines prove")
        request_and_wait(stage, "calm")  # from here on nothing happens by itself
        yield stage


@pytest.fixture(scope="module")
def token(stage: Stage) -> str:
    return a_person(stage.cluster, stage.home, "reports", verbs=STEERS, namespaces=[stage.namespace])


@pytest.fixture
def api(stage: Stage, token: str) -> Iterator[httpx.Client]:
    base_url = f"http://127.0.0.1:{stage.web_port}/api/v1/namespaces/{stage.namespace}/agents"
    with httpx.Client(base_url=base_url, headers={"authorization": f"Bearer {token}"}, trust_env=False) as client:
        yield client


def items(api: httpx.Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"{NAME}{path}").raise_for_status().json()["items"]
    return found


def test_what_is_read_is_what_the_database_and_the_status_say(stage: Stage, api: httpx.Client) -> None:
    def rate() -> float:
        found: float = api.get(NAME).raise_for_status().json()["sample"]["proofsPerHour"]
        return found

    stage.wait_for(lambda: rate() == stage.status()["fleet"]["proofsPerHour"], "the newest sample is written")
    told = api.get(NAME).raise_for_status().json()

    status = stage.status()
    assert told["lastRunID"] == status["lastRunID"]
    assert told["session"]["messagesInPrompt"] == status["session"]["messages"]
    assert told["session"].get("contextTokens") == status["session"].get("contextTokens")
    assert told["status"]["lastRunID"] == status["lastRunID"]
    runs = {r["runID"]: r for r in items(api, "/runs?limit=200")}
    for row in stage.rows("SELECT * FROM runs"):
        run = runs[row["run_id"]]
        assert (run["tokensIn"], run["tokensOut"], run["outcome"]) == (
            row["tokens_in"],
            row["tokens_out"],
            row["outcome"],
        )
    machines = stage.rows("SELECT number, phase FROM instances WHERE phase NOT IN ('gone', 'failed')")
    assert {(m["number"], m["phase"]) for m in items(api, "/machines")} == {(m["number"], m["phase"]) for m in machines}
    launches = stage.rows("SELECT id FROM actions WHERE kind = 'launch' AND state = 'done'")
    assert {a["id"] for a in items(api, "/actions?state=done&limit=200") if a["kind"] == "launch"} == {
        row["id"] for row in launches
    }


def test_an_exported_session_is_the_whole_conversation(stage: Stage, api: httpx.Client) -> None:
    (session,) = items(api, "/sessions")

    lines = [
        json.loads(line)
        for line in api.get(f"{NAME}/sessions/{session['id']}/export").raise_for_status().text.splitlines()
    ]

    stored = stage.rows("SELECT role, content FROM messages ORDER BY seq")
    assert [(line["role"], line["content"]) for line in lines] == [(row["role"], row["content"]) for row in stored]
    calls = [call["id"] for line in lines for call in line.get("tool_calls", [])]
    assert calls == [line["tool_call_id"] for line in lines if line["role"] == "tool"]
    assert calls


@pytest.mark.parametrize("example", EXAMPLES[1:], ids=lambda text: text.splitlines()[0].rpartition(" ")[2])
def test_each_example_of_the_docs_does_what_it_says(stage: Stage, token: str, example: str, tmp_path: Path) -> None:
    api = f"http://127.0.0.1:{stage.web_port}/api/v1"
    agent = f"{api}/namespaces/{stage.namespace}/agents/{NAME}"
    environ = {"PATH": "/usr/bin:/bin", "API": api, "AGENT": agent, "AUTH": f"Authorization: Bearer {token}"}
    example = example.replace("/sessions/1/", f"/sessions/{stage.status()['session']['id']}/")

    for line in example.splitlines():
        done = subprocess.run(
            ["/bin/bash", "-ec", line],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

        assert (done.returncode, done.stderr) == (0, ""), f"{line}: {done.stdout}"
        assert not done.stdout or isinstance(json.loads(done.stdout), dict)


def test_the_examples_begin_with_where_the_api_is() -> None:
    assert [line.partition("=")[0] for line in EXAMPLES[0].splitlines()] == ["API", "AGENT", "AUTH"]
    assert len(EXAMPLES) >= 6
