"""`kubectl fleetagent` against a real API server and the operator: what people see, say, and are refused in words."""

import json
import secrets
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.asking import BY_HAND
from support.inhabited import an_empty_stage, said
from support.people import READS, STEERS, a_person
from support.ports import free_port
from support.stage import NAME, Stage
from support.terminals import Person, door_of, opened, with_token

WAITS_S = 60.0


class Cast:
    """One agent that has lived a little, and people of different rights at their terminals."""

    def __init__(self, stage: Stage, other: str, folder: Path) -> None:
        self.stage, self.other, self._folder = stage, other, folder
        namespace = stage.namespace
        self.steers = self.somebody("steers", STEERS, (namespace,))
        self.reads = self.somebody("reads", READS, (namespace,))
        self.nobody = self.somebody("nobody", (), ())

    def somebody(self, name: str, verbs: tuple[str, ...], namespaces: tuple[str, ...]) -> Person:
        return self.with_token(a_person(self.stage.cluster, self.stage.home, name, verbs=verbs, namespaces=namespaces))

    def with_token(self, token: str, server: str | None = None) -> Person:
        return with_token(self.stage.cluster, token, self.stage.namespace, self._folder, server)

    @property
    def web(self) -> tuple[str, str]:
        return "--server", f"http://127.0.0.1:{self.stage.web_port}"


@pytest.fixture(scope="module")
def cast(
    control_plane: ControlPlane,
    postgres_server: EmbeddedPostgres,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cast]:
    folder = tmp_path_factory.mktemp("plugin")
    with an_empty_stage(control_plane, postgres_server, migrated_template, folder) as (stage, other):
        stage.start_operator()
        stage.apply()
        stage.wait_for_target()
        stage.apply(spec={"schedule": BY_HAND, "budget": {"fleetUsdPerDay": "96.00"}})
        said(stage, "[sim] alert warning the pager test")
        yield Cast(stage, other, folder)


# --- looking ---


def test_list_and_status_show_what_the_api_server_has(cast: Cast) -> None:
    fleet = cast.stage.status()["fleet"]

    (row,) = cast.reads.types("list", "-o", "json").json["items"]
    shown = cast.reads.types("status", NAME, "-o", "json").json
    text = cast.reads.types("status", NAME).out

    assert {"projectedProofsPerHour", "usdPerHour", "instances"} <= fleet.keys()
    for each in (row, shown):
        assert each["status"]["fleet"].keys() == fleet.keys()
        assert each["status"]["openAlerts"] == 1
        assert "managedFields" not in each["metadata"]
    assert f"{shown['status']['fleet']['usdPerHour']} of 4.00 per hour" in text
    assert f"{shown['status']['fleet']['instances']}: " in text
    assert yaml.safe_load(cast.reads.types("status", NAME, "-o", "yaml").out)["spec"] == shown["spec"]
    assert NAME in cast.reads.types("list", "-o", "wide").out


def test_the_executable_says_the_same_without_colours_in_a_pipe(cast: Cast) -> None:
    done = subprocess.run(cast.reads.command("status", NAME), capture_output=True, text=True, check=True)

    assert done.stdout.startswith(f"{cast.stage.namespace}/{NAME}  Act\n")
    assert "\x1b" not in done.stdout


def test_what_only_the_database_knows_comes_from_our_api_with_the_callers_own_token(cast: Cast) -> None:
    stage, who = cast.stage, cast.reads

    def items(*words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = who.types(*words, *cast.web, "-o", "json").json["items"]
        return found

    rows = [(r["run_id"], r["outcome"]) for r in reversed(stage.runs())]
    assert [(r["runID"], r["outcome"]) for r in items("runs", NAME, "--limit", "200")] == rows
    assert {r["outcome"] for r in items("runs", NAME, "--outcome", "Acted")} == {"Acted"}
    machines = stage.rows("SELECT number FROM instances WHERE phase NOT IN ('gone', 'failed')")
    assert {m["number"] for m in items("fleet", NAME)} == {m["number"] for m in machines}
    (alert,) = items("alerts", NAME)
    assert (alert["message"], alert["state"]) == ("the pager test", "open")
    tokens = stage.rows("SELECT sum(tokens)::bigint AS n FROM spend")[0]["n"]
    assert sum(day["modelTokens"] for day in items("spend", NAME)) == tokens
    messages = stage.rows("SELECT count(*) AS n FROM messages")[0]["n"]
    assert len(items("conversation", NAME, "--limit", "10000")) == messages
    exported = who.types("conversation", NAME, "--export", *cast.web)
    assert len(exported.out.splitlines()) == messages


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("runs",), "OUTCOME"),
        (("run",), "launch_instance"),
        (("conversation",), "the pager test"),
        (("fleet", "-o", "wide"), "requested@"),
        (("spend",), "together"),
        (("alerts",), "alert-"),
    ],
    ids=str,
)
def test_people_get_tables_of_it(cast: Cast, words: tuple[str, ...], shown: str) -> None:
    command, *options = words
    first = cast.stage.rows("SELECT min(run_id) AS n FROM runs WHERE outcome = 'Acted'")[0]["n"]
    number = [str(first)] if command == "run" else []

    typed = cast.reads.types(command, NAME, *number, *options, *cast.web)

    assert (typed.code, typed.err) == (0, "")
    assert shown in typed.out


def test_a_watch_gives_the_answer_anew_when_it_changes(cast: Cast) -> None:
    command = cast.reads.command("runs", NAME, "--limit", "1", *cast.web, "-o", "json", "--watch")
    before = cast.stage.runs()[-1]["run_id"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            first = _document(watching.stdout)
            cast.stage.annotate(requested_at="watched")
            then = _document(watching.stdout)
        finally:
            watching.terminate()

    assert first["items"][0]["runID"] == before
    assert then["items"][0]["runID"] == before + 1


def _document(lines: Iterator[str]) -> dict[str, Any]:
    text = ""
    for each in lines:
        text += each
        if each == "}\n":
            break
    found: dict[str, Any] = json.loads(text)
    return found


def test_open_signs_a_real_browser_in_and_leaves_no_token_in_its_address(cast: Cast, chromium: Browser) -> None:
    with opened(cast.reads, NAME, *cast.web) as process:
        page = chromium.new_page()
        page.goto(door_of(process))
        page.wait_for_url(f"**/agents/{cast.stage.namespace}/{NAME}")
        assert process.wait(10) == 0  # no port-forward to keep
        shown, address = page.inner_text("h1"), page.url
        page.close()

    assert NAME in shown
    assert "#" not in address


# --- saying ---


def test_a_run_is_had_for_the_asking(cast: Cast) -> None:
    before = len(cast.stage.runs())

    assert cast.steers.types("trigger", NAME).out == f"{cast.stage.namespace}/{NAME}: a run is asked for\n"

    cast.stage.wait_for(lambda: len(cast.stage.runs()) > before, "a run")
    assert "Request" in cast.stage.runs()[before]["triggers"]


def test_words_reach_the_model_and_an_alert_is_acknowledged_with_a_comment(cast: Cast) -> None:
    stage = cast.stage
    (alert,) = cast.reads.types("alerts", NAME, *cast.web, "-o", "json").json["items"]

    assert cast.steers.types("message", NAME, "prefer hosts in the EU").code == 0
    assert cast.steers.types("ack", NAME, f"alert-{alert['id']}", "known: an exercise").code == 0

    heard = "SELECT 1 FROM messages WHERE kind = 'feedback' AND content LIKE %s"
    stage.wait_for(lambda: stage.rows(heard, "%prefer hosts in the EU%"), "the words are heard")
    stage.wait_for(lambda: stage.rows(heard, "%known: an exercise%"), "the comment is heard")
    shown = cast.reads.types("alerts", NAME, "--all", *cast.web).out
    assert "acknowledged" in shown
    assert "known: an exercise" in shown


def test_a_pause_is_the_spec_field_and_ends_by_resume(cast: Cast) -> None:
    typed = cast.steers.types("pause", NAME, "--for", "2h", "--reason", "too dear", "--up", "--down", "-o", "json")

    pause = cast.stage.resource()["spec"]["pause"]
    assert typed.json == {"spec": {"pause": pause}}
    assert (pause["reason"], set(pause["directions"])) == ("too dear", {"Up", "Down"})
    assert "too dear" in cast.reads.types("status", NAME).out
    assert cast.steers.types("resume", NAME).code == 0
    assert "pause" not in cast.stage.resource()["spec"]
    assert "for: " in cast.steers.types("pause", NAME, "--for", "2 hours").sentence


def test_a_reset_begins_a_new_session(cast: Cast) -> None:
    before = cast.stage.status()["session"]["id"]

    assert cast.steers.types("reset", NAME).code == 0

    cast.stage.wait_for(lambda: cast.stage.status()["session"]["id"] != before, "a new session")


def test_two_people_who_decide_at_once_are_both_heard(cast: Cast) -> None:
    stage = cast.stage
    stage.apply(
        spec={"schedule": BY_HAND, "mode": "Approve", "approvalExpiry": "10m", "target": {"proofsPerHour": 5000}}
    )

    def waiting() -> list[str]:
        return [each["id"] for each in stage.status().get("waitingActions", [])]

    stage.wait_for(lambda: len(waiting()) >= 3, "the model wants three machines, and has to wait", WAITS_S)
    one, two, three = waiting()[:3]
    assert one in cast.reads.types("status", NAME).out
    stage.kill_operator()  # so that nothing is heard in between

    typing = [
        subprocess.Popen(cast.steers.command(*words), stdout=subprocess.DEVNULL)
        for words in (("approve", NAME, one), ("approve", NAME, two), ("reject", NAME, three))
    ]
    assert [each.wait(30) for each in typing] == [0, 0, 0]

    said = stage.resource()["metadata"]["annotations"]
    assert set(said["fleetagent.dev/approve"].split(",")) == {one, two}
    assert said["fleetagent.dev/reject"] == three
    stage.start_operator()
    states = "SELECT state FROM actions WHERE 'action-' || id = ANY(%s) ORDER BY id"

    def obeyed() -> bool:
        return [row["state"] for row in stage.rows(states, [one, two, three])] == ["done", "done", "rejected"]

    stage.wait_for(obeyed, "all are obeyed", WAITS_S)
    stage.wait_for_books()


def test_an_action_that_does_not_wait_is_said_to_be_unknown(cast: Cast) -> None:
    typed = cast.steers.types("approve", NAME, "action-999")

    assert typed.code == 0
    assert "the status knows no action-999 that waits" in typed.err
    assert "actions: " in cast.steers.types("approve", NAME, "the first one").sentence


# --- what goes wrong, in one sentence each ---


def test_without_rights_the_api_server_says_what_is_missing(cast: Cast) -> None:
    for words in (("list",), ("status", NAME), ("trigger", NAME)):
        assert "cannot" in cast.nobody.types(*words).sentence
    assert "cannot list resource" in cast.reads.types("list", "-A").sentence
    assert "may not get fleetagents" in cast.nobody.types("runs", NAME, *cast.web).sentence


def test_who_may_only_read_cannot_steer(cast: Cast) -> None:
    before = cast.stage.resource()["metadata"].get("annotations", {})

    for words in (
        ("trigger", NAME),
        ("reset", NAME),
        ("message", NAME, "sell everything"),
        ("ack", NAME, "alert-9"),
        ("approve", NAME, "action-9"),
        ("reject", NAME, "action-9"),
        ("pause", NAME, "--for", "1h"),
        ("resume", NAME),
    ):
        assert "cannot patch resource" in cast.reads.types(*words).sentence

    assert cast.stage.resource()["metadata"].get("annotations", {}) == before


def test_what_is_not_there_is_named(cast: Cast) -> None:
    assert cast.steers.types("status", "nope").sentence == 'fleetagents.fleetagent.dev "nope" not found'
    assert "not found" in cast.steers.types("trigger", "nope").sentence
    assert "there is no FleetAgent" in cast.steers.types("fleet", "nope", *cast.web).sentence
    assert "there is no run 999999" in cast.steers.types("run", NAME, "999999", *cast.web).sentence
    assert "it has: local" in cast.steers.types("list", "--context", "prod").sentence


def test_an_expired_token_is_told_from_a_missing_right(cast: Cast) -> None:
    stranger = cast.with_token("expired")

    assert "does not know you (401)" in stranger.types("list").sentence
    assert "log in" in stranger.types("trigger", NAME).sentence
    assert "token" in stranger.types("runs", NAME, *cast.web).sentence


def test_an_api_server_that_is_away_is_named(cast: Cast) -> None:
    port = free_port()
    lost = cast.with_token("any", server=f"https://127.0.0.1:{port}")

    assert lost.types("list").sentence == (
        f"the API server at https://127.0.0.1:{port} cannot be reached: Connection refused"
    )


def test_where_fleetagent_is_not_installed_the_context_is_doubted(cast: Cast) -> None:
    model = cast.with_token(
        "any", server=cast.stage.model.url.removesuffix("/v1")
    )  # an HTTP server, and not Kubernetes

    assert "is FleetAgent installed, and is the context right?" in model.types("list").sentence


def test_an_operator_that_is_down_takes_the_past_with_it_and_not_the_status(cast: Cast) -> None:
    away = f"http://127.0.0.1:{free_port()}"

    assert cast.reads.types("status", NAME).code == 0
    assert "does the operator run?" in cast.reads.types("runs", NAME, "--server", away).sentence


def test_a_word_that_nobody_has_heard_yet_is_not_overwritten(cast: Cast) -> None:
    stage = cast.stage
    stage.kill_operator()
    try:
        assert cast.steers.types("message", NAME, "first").code == 0
        refused = cast.steers.types("message", NAME, "second", "--wait", "0s").sentence
        kept = stage.resource()["metadata"]["annotations"]["fleetagent.dev/message"]
        insisted = cast.steers.types("message", NAME, "third", "--replace")
    finally:
        stage.start_operator()

    assert "('first') is not confirmed by the operator" in refused
    assert kept == "first"
    assert insisted.code == 0
    heard = "SELECT content FROM messages WHERE kind = 'feedback' AND content IN ('first', 'second', 'third')"
    stage.wait_for(lambda: [r["content"] for r in stage.rows(heard)] == ["third"], "the last word is heard", WAITS_S)


# --- a report ---


def test_a_report_holds_what_a_bug_report_needs_and_no_secret(cast: Cast, tmp_path: Path) -> None:
    stage = cast.stage
    secret = secrets.token_hex(12)
    env = {"WALLET": secret}
    stage.apply(spec={"schedule": BY_HAND, "fleet": {"vast": {"instance": {"env": env, "onstart": f"echo {secret}"}}}})
    said(stage, f"[sim] say Authorization: Bearer {secret}")
    to = tmp_path / "report.tar.gz"

    typed = cast.steers.types("report", NAME, "--to", str(to), *cast.web)

    assert typed.code == 0, typed.err
    with tarfile.open(to) as archive:
        files = {m.name.partition("/")[2]: archive.extractfile(m).read().decode() for m in archive.getmembers()}  # type: ignore[union-attr]  # all are files
    assert {"CONTENTS.txt", "agent.yaml", "versions.yaml", "runs.json", "actions.json", "machines.json"} <= files.keys()
    assert "Hold" in files["runs.json"]
    assert "not in it: events" in files["CONTENTS.txt"]  # who may only steer may not read Events
    for name, text in files.items():
        assert secret not in text, name
    assert to.stat().st_mode & 0o077 == 0
    before = to.read_bytes()
    assert "is there already" in cast.steers.types("report", NAME, "--to", str(to), *cast.web).sentence
    assert to.read_bytes() == before
