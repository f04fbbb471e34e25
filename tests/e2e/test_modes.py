"""Who holds an agent back is obeyed: by mode, pause and the installation's stop; what code must end still ends."""

import pytest

from support.asking import BY_HAND, LOOK, ask, codes, launch, offers, script, stop
from support.stage import Stage
from support.steering import kopf_has_caught_up

IDLE, BUSY = {"proofsPerHour": 1}, {"proofsPerHour": 5000}


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Two machines are on their way, and stay so."""
    stage.market.put("faults", {"worker": {"kind": "silent"}})
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY)
    shown = offers(stage)
    bought = ask(stage, [LOOK], [launch(shown[0]), launch(shown[1])])
    assert codes(bought) == ["done", "done"]
    return stage


def machines(stage: Stage) -> list[str]:
    return [str(m["id"]) for m in stage.market.live()]


def pause(*directions: str) -> dict[str, object]:
    return {"until": "2099-01-01T00:00:00Z", "directions": list(directions)}


def the_market_heard_of_nothing_new(stage: Stage) -> bool:
    state = stage.market.get("state")
    return (state["calls"]["create"], state["calls"]["destroy"]) == (2, 0)


def test_no_mode_but_act_lets_a_model_do_anything(stage: Stage) -> None:
    shown, victim = offers(stage)[2:], machines(stage)[0]
    wish = [LOOK], [launch(shown[0])]

    refused = {
        "dry launch": codes(ask(stage, *wish, mode="DryRun", target=BUSY)),
        "dry stop": codes(ask(stage, [stop(victim)], mode="DryRun", target=IDLE)),
        "approve launch": codes(ask(stage, *wish, mode="Approve", approvalExpiry="15s", target=BUSY)),
        "approve stop": codes(ask(stage, [stop(victim)], mode="Approve", approvalExpiry="15s", target=IDLE)),
    }
    stage.wait_for(lambda: not stage.status()["waitingActions"], "what nobody approved has expired")
    refused |= {
        "paused up": codes(ask(stage, *wish, pause=pause("Up"), target=BUSY)),
        "paused down": codes(ask(stage, [stop(victim)], pause=pause("Down"), target=IDLE)),
    }

    assert refused == {
        "dry launch": ["DryRun"],
        "dry stop": ["DryRun"],
        "approve launch": ["waiting"],
        "approve stop": ["waiting"],
        "paused up": ["Paused"],
        "paused down": ["Paused"],
    }
    assert the_market_heard_of_nothing_new(stage)
    up_only = ask(stage, [stop(victim)], pause=pause("Up"), target=IDLE)
    assert codes(up_only) == ["done"]
    stage.wait_for_books()


def test_the_installations_stop_refuses_everything_while_broken_machines_still_end(stage: Stage) -> None:
    shown, (broken, victim) = offers(stage)[2:], machines(stage)
    stage.cluster.kubectl("-n", stage.home, "create", "configmap", "fleetagent-stop", "--from-literal=reason=audit")

    wished = ask(stage, [LOOK], [launch(shown[0]), stop(victim)])
    assert codes(wished) == ["InstallationStopped"] * 2
    assert "audit" in wished[0]["refusal"]["sentence"]
    stage.wait_for(lambda: stage.condition("CanLaunch").get("reason") == "InstallationStopped", "people see it")
    assert "audit" in stage.condition("CanLaunch")["message"]
    assert the_market_heard_of_nothing_new(stage)
    stage.market.post(f"machines/{broken}/fail", {"status": "exited"})
    stage.wait_for(lambda: machines(stage) == [victim], "the broken machine is destroyed")

    stage.cluster.kubectl("-n", stage.home, "delete", "configmap", "fleetagent-stop")
    assert codes(ask(stage, [LOOK], [launch(shown[0])])) == ["done"]
    stage.wait_for(lambda: stage.condition("CanLaunch").get("status") == "True", "its end is seen")
    stage.wait_for_books()


def test_a_mode_that_changes_while_the_model_thinks_holds_for_what_it_then_asks(stage: Stage) -> None:
    shown = offers(stage)[2:]
    script(stage, [LOOK], [launch(shown[0])])
    stage.model.put("hold")
    stage.annotate(requested_at="thinking")
    stage.wait_for(lambda: stage.model.get("state")["held"] == 1, "the model thinks")
    stage.wait_for(lambda: kopf_has_caught_up(stage), "the request is handed over")
    before = stage.runs()[-1]["run_id"]

    stage.apply(spec={"schedule": BY_HAND, "target": BUSY, "mode": "DryRun"})
    generation = stage.resource()["metadata"]["generation"]
    stage.wait_for(lambda: kopf_has_caught_up(stage), "the operator has seen the new mode")
    stage.model.delete("hold")

    stage.wait_for(lambda: stage.runs()[-1]["run_id"] > before, "the run has ended and the next one has begun")
    actions = stage.rows("SELECT * FROM actions WHERE run_id = %s", before)
    assert codes(actions) == ["DryRun"], generation
    assert the_market_heard_of_nothing_new(stage)


def test_a_suspended_agent_makes_no_runs_but_its_machines_are_still_looked_after(stage: Stage) -> None:
    broken, kept = machines(stage)
    stage.apply(spec={"schedule": {"interval": "10s"}, "target": BUSY, "mode": "Suspended"})
    stage.wait_for(lambda: stage.condition("Suspended").get("status") == "True", "Suspended")
    asked = len(stage.model.requests())

    stage.annotate(requested_at="please")
    stage.market.post(f"machines/{broken}/fail", {"status": "exited"})
    stage.wait_for(lambda: machines(stage) == [kept], "the broken machine is destroyed")
    stage.wait_for(lambda: stage.status()["fleet"]["instances"] == 1, "status is kept fresh")

    assert len(stage.model.requests()) == asked
    assert stage.condition("Ready")["reason"] == "Suspended"
    stage.wait_for_books()
