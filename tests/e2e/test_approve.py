"""Mode Approve, as a person lives with it: what waits is seen, agreed to or refused, and checked once more."""

import re

import httpx
import pytest

from support.asking import LOOK, ask, codes, launch, offers
from support.manifests import Json
from support.servers import MARKET_KEY
from support.stage import Stage

BUSY = {"proofsPerHour": 5000}


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """An agent in mode Approve that was shown offers."""
    stage.start_operator()
    ask(stage, [LOOK], mode="Approve", approvalExpiry="10m", target=BUSY)
    return stage


def wish(stage: Stage, offer: str) -> str:
    """A run that wants to rent this offer; the name of the action that waits then."""
    asked = ask(stage, [LOOK], [launch(offer)])
    assert codes(asked) == ["waiting"]
    name = f"action-{asked[0]['id']}"
    stage.wait_for(lambda: name in waiting(stage), f"{name} stands in the status")
    return name


def waiting(stage: Stage) -> dict[str, Json]:
    """What the status says of actions that wait, by name."""
    return {action["id"]: action for action in stage.status().get("waitingActions", [])}


def outcome(stage: Stage, name: str) -> str:
    """What became of an action: its state, or the code of its refusal."""
    rows = stage.rows("SELECT * FROM actions WHERE id = %s", int(name.removeprefix("action-")))
    return codes(rows)[0]


def created(stage: Stage) -> int:
    count: int = stage.market.get("state")["calls"]["create"]
    return count


def rented_by_somebody_else(stage: Stage, offer: str) -> None:
    answer = httpx.put(
        f"{stage.market.base_url}/api/v0/asks/{offer}/",
        headers={"Authorization": f"Bearer {MARKET_KEY}"},
        json={"client_id": "me", "image": "example/hand-made:1", "disk": 250, "label": "hand-made"},
        trust_env=False,
    )
    answer.raise_for_status()


def test_a_person_sees_what_waits_agrees_by_the_command_that_the_event_names_and_gets_a_machine(stage: Stage) -> None:
    shown = offers(stage)
    name = wish(stage, shown[0])

    seen = waiting(stage)[name]
    assert {key: seen[key] for key in ("kind", "reason")} == {"kind": "launch", "reason": "because"}
    assert created(stage) == 0
    stage.wait_for(lambda: stage.events("ApprovalNeeded"), "people are told")
    (told,) = stage.events("ApprovalNeeded")
    assert seen["what"] in told
    command = re.search(r"kubectl (-n \S+ annotate --overwrite fleetagent \S+ \S+=action-\d+)", told)
    assert command is not None, told

    asked = len(stage.model.requests())
    stage.cluster.kubectl(*command[1].split())
    stage.wait_for(lambda: outcome(stage, name) == "done", "the action has happened")
    stage.wait_for(lambda: stage.status()["lastRun"].get("outcome") == "Acted", "its run is reported")

    assert (created(stage), len(stage.market.live())) == (1, 1)
    assert stage.status()["lastRun"]["triggers"] == ["Approval"]
    assert len(stage.model.requests()) == asked
    assert stage.status()["lastHandledApprove"] == name
    assert waiting(stage) == {}
    assert stage.condition("SpecHonoured")["status"] == "True"
    stage.wait_for_books()


def test_what_is_rejected_gone_or_dearer_by_now_never_happens_and_the_agent_is_told(stage: Stage) -> None:
    shown = offers(stage)
    rejected, gone, dearer = (wish(stage, offer) for offer in shown[:3])
    hand_made = 1
    rented_by_somebody_else(stage, shown[1])

    stage.annotate(reject=rejected)
    stage.wait_for(lambda: outcome(stage, rejected) == "rejected", "the rejection is obeyed")
    stage.annotate(approve=gone)
    stage.wait_for(lambda: outcome(stage, gone) == "OfferGone", "an offer that is gone is a refusal")
    stage.market.put("faults", {"search": {"kind": "dearer"}})
    stage.annotate(approve=f"{dearer}, {rejected}")
    stage.wait_for(lambda: outcome(stage, dearer) == "OfferDearer", "the price that waited holds")
    stage.market.put("faults", {})

    stage.wait_for(lambda: waiting(stage) == {}, "nothing waits any more")
    assert created(stage) == hand_made
    stage.wait_for(lambda: len(stage.events("ActionRefused")) == 2, "people are told of both refusals")
    stage.wait_for(lambda: stage.events("ActionRejected"), "and of the rejection")
    assert f"{rejected}: rejected" in stage.events("NothingWaiting")[0]
    ask(stage, [LOOK])
    facts = _facts(stage)
    assert f"{rejected} (launch" in facts
    assert "was rejected by a person" in facts
    assert "refused (OfferGone)" in facts
    assert "refused (OfferDearer)" in facts
    stage.check_books()


def test_what_nobody_approves_expires_and_the_operators_death_changes_nothing_of_that(stage: Stage) -> None:
    shown = offers(stage)
    ask(stage, [LOOK], mode="Approve", approvalExpiry="40s", target=BUSY)
    name = wish(stage, shown[0])
    stage.restart_operator()

    stage.wait_for(lambda: outcome(stage, name) == "expired", "its time is over", 120)
    stage.wait_for(lambda: stage.events("ApprovalExpired"), "people are told")
    stage.annotate(approve=name)
    stage.wait_for(lambda: stage.status().get("lastHandledApprove") == name, "the late word is answered")

    assert created(stage) == 0
    stage.wait_for(lambda: stage.events("NothingWaiting"), "people are told of that too")
    assert f"{name}: expired" in stage.events("NothingWaiting")[0]
    assert waiting(stage) == {}


def _facts(stage: Stage) -> str:
    """The newest observation in the newest prompt."""
    messages: list[Json] = stage.model.requests()[-1]["body"]["messages"]
    said = [str(m["content"]) for m in messages if m["role"] == "user"]
    return next(text for text in reversed(said) if text.startswith("[Run #"))
