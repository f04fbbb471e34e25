"""Alerts reach those whom a Secret names, once, whichever process sends them and whatever happens to it."""

import base64
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.ports import free_port
from support.receivers import Inbox, an_inbox
from support.stage import ACCOUNT, NAME, Stage
from support.steering import apply_idle

TO_PAGER = {"notifySecretRef": {"name": "pager", "key": "urls"}}


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with an_inbox() as box:
        yield box


def set_pager(stage: Stage, *urls: str) -> None:
    """Make the Secret, or replace what stands in it."""
    value = base64.b64encode("\n".join(urls).encode()).decode()
    manifest = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: pager}}\ndata: {{urls: {value}}}\n"
    stage.cluster.kubectl("-n", stage.namespace, "apply", "-f", "-", stdin=manifest)


def arrived(stage: Stage, inbox: Inbox, count: int) -> list[str]:
    """Wait for so many messages; how each began, without the agent's name."""
    stage.wait_for(lambda: len(inbox.messages) >= count, f"{count} messages")
    return [title.partition(",")[0] for title in inbox.titles]


def outcome(stage: Stage) -> list[str]:
    return [row["state"] for row in stage.rows("SELECT state FROM notifications ORDER BY id")]


def let_claims_end(stage: Stage) -> None:
    """As if the time had passed for which a dead process had claimed what it was sending."""
    stage.rows("UPDATE notifications SET claimed_until = now() WHERE claimed_until > now() RETURNING 1")


def test_an_alert_its_acknowledgement_and_its_end_reach_a_receiver_once(stage: Stage, inbox: Inbox) -> None:
    set_pager(stage, "# on call", inbox.url)
    stage.start_operator(web_url="https://fleet.example")
    apply_idle(stage, alerts=TO_PAGER)
    stage.wait_for(lambda: stage.condition("AlertsDelivered").get("reason") == "NothingWaits", "the Secret is good")

    stage.annotate(message="[sim] alert warning the pager test")
    assert arrived(stage, inbox, 1) == ["New warning alert-1 (Model)"]
    stage.annotate(acknowledge="alert-1: known outage")
    assert arrived(stage, inbox, 2)[1:] == ["Acknowledged alert-1 (Model)"]
    stage.market.put("faults", {"list": "http_500"})
    assert arrived(stage, inbox, 3)[2:] == ["New warning alert-2 (FleetUnknown)"]
    stage.market.delete("faults")
    assert arrived(stage, inbox, 4)[3:] == ["Resolved alert-2 (FleetUnknown)"]

    stage.wait_for(lambda: outcome(stage) == ["sent"] * 4, "all is marked off")
    first, acknowledged, *_ = (message["message"] for message in inbox.messages)
    assert first.startswith("the pager test\n")
    assert f"Page: https://fleet.example/agents/{stage.namespace}/{NAME}/alerts" in first
    assert "Comment: known outage" in acknowledged
    assert inbox.asked == 4
    assert "127.0.0.1:" + str(inbox.port) not in stage.log() + str(stage.resource())
    said = stage.rows("SELECT * FROM notifications")
    assert "/hook" not in str(said)


def test_what_a_killed_process_was_sending_the_next_one_sends(stage: Stage, inbox: Inbox) -> None:
    inbox.behaviour = "hang"
    set_pager(stage, inbox.url)
    stage.start_operator()
    apply_idle(stage, alerts=TO_PAGER)
    stage.annotate(message="[sim] alert warning the pager test")
    stage.wait_for(lambda: inbox.asked == 1, "it is under way")

    stage.kill_operator()
    inbox.behaviour = "take"
    stage.start_operator()
    stage.wait_for(lambda: stage.condition("AlertsDelivered"), "the next one has begun")
    assert outcome(stage) == ["waiting"]
    let_claims_end(stage)

    assert arrived(stage, inbox, 1) == ["New warning alert-1 (Model)"]
    stage.wait_for(lambda: outcome(stage) == ["sent"], "it is marked off")
    assert len(inbox.messages) == 1


def test_of_two_operators_one_sends_and_no_run_waits_for_a_receiver_that_hangs(stage: Stage, inbox: Inbox) -> None:
    with an_inbox() as silent:
        silent.behaviour = "hang"
        set_pager(stage, silent.url, inbox.url)
        stage.start_operator()
        stage.start_operator(worker_listen=f"127.0.0.1:{free_port()}")
        apply_idle(stage, alerts=TO_PAGER)
        stage.annotate(message="[sim] alert warning the pager test")
        arrived(stage, inbox, 1)
        before = len(stage.runs())

        for number in range(3):
            stage.annotate(requested_at=f"request {number}")
            stage.wait_for(lambda n=number: stage.status().get("lastHandledRequest") == f"request {n}", "served", 15)  # type: ignore[misc]

        assert len(stage.runs()) >= before + 3
        assert (len(inbox.messages), silent.asked) == (1, 1)
        failed = "line 1 (json://) did not take it: no connection, or no whole answer"
        stage.wait_for(lambda: failed in stage.condition("AlertsDelivered")["message"], "it is said", 40)
    assert len(inbox.messages) == 1


def test_a_test_message_says_of_each_receiver_whether_it_took_it(stage: Stage, inbox: Inbox) -> None:
    set_pager(stage, inbox.url, "json://127.0.0.1:9/secret-path", "dbus://secret-path")
    stage.apply(spec={"mode": "Suspended", "alerts": TO_PAGER})
    kubeconfig = str(stage.cluster.kubeconfig_for(ACCOUNT, stage.home))

    done = subprocess.run(
        [sys.executable, "-m", "fleetagent", "alerts-test", "--namespace", stage.namespace, "--name", NAME],
        env={"PATH": "", "KUBECONFIG": kubeconfig, "FLEETAGENT_ALLOWED_HOSTS": "127.0.0.1", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 3, done.stderr
    assert done.stdout.splitlines() == [
        "line 1 (json://): taken",
        "line 2 (json://) did not take it: no connection, or no whole answer",
        "spec.alerts.notifySecretRef: line 3 (dbus://) names no service that is served here: see docs/how-to/alerts.md",
    ]
    assert "secret-path" not in done.stderr
    assert inbox.titles == [f"Test, FleetAgent {stage.namespace}/{NAME}"]
