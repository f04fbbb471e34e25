"""While the model fails for long a plain controller keeps the target; it says when it took over and gave back."""

import signal
from typing import Any

from support.stage import Stage

SPEC: dict[str, Any] = {"fallback": "Controller", "schedule": {"interval": "10s", "skipUnchanged": False}}


def deciders(stage: Stage) -> set[str]:
    """Who made the actions so far; a machine that fails by itself is ended by code in every mode."""
    decided = "state <> 'refused' AND NOT (kind = 'stop' AND by = 'lifecycle')"
    return {row["by"] for row in stage.rows(f"SELECT DISTINCT by FROM actions WHERE {decided}")}  # noqa: S608


def says(stage: Stage, reason: str) -> bool:
    return stage.condition("ControllerDeciding").get("reason") == reason


def test_the_controller_keeps_the_target_while_the_model_is_down_and_gives_back_when_it_answers(stage: Stage) -> None:
    stage.model.put("faults", {"name": "A16", "times": None})
    stage.start_operator()
    stage.apply(spec=SPEC)
    stage.wait_for_runs(2)
    assert says(stage, "ModelDecides")
    assert stage.rows("SELECT * FROM actions") == []

    stage.rows("UPDATE agents SET model_failing_since = now() - interval '16 min' RETURNING id")
    stage.annotate(requested_at="1")
    stage.wait_for_target()
    stage.wait_for(lambda: says(stage, "ControllerDecides"), "the controller decides")
    assert deciders(stage) == {"controller"}
    stage.restart_operator(signal.SIGKILL)
    stage.wait_for_runs(len(stage.runs()) + 2)
    assert says(stage, "ControllerDecides")
    assert len(stage.events("ControllerDecides")) == 1
    stage.wait_for_books()

    stage.model.delete("faults")
    stage.annotate(requested_at="2")
    stage.wait_for(lambda: says(stage, "ModelDecides"), "the model decides again")
    stage.wait_for(lambda: stage.events("ModelDecides"), "people hear of it")
    assert (len(stage.events("ControllerDecides")), len(stage.events("ModelDecides"))) == (1, 1)
    asked = stage.model.requests()[-1]["body"]["messages"]
    assert any("In your place the fallback controller decided: launch" in str(m.get("content")) for m in asked)


def test_with_the_tokens_of_the_day_used_up_the_controller_goes_on_within_the_same_limits(stage: Stage) -> None:
    stage.start_operator()
    stage.apply(spec={**SPEC, "budget": {"fleetUsdPerHour": "0.90", "modelTokensPerDay": 0}})

    stage.wait_for(lambda: says(stage, "ControllerDecides"), "the controller decides")
    stage.wait_for(stage.market.live, "a machine is rented")
    stage.wait_for_runs(4)

    assert deciders(stage) == {"controller"}
    bill = stage.rows("SELECT sum(usd_per_hour) AS usd FROM instances WHERE phase NOT IN ('gone', 'failed')")
    assert 0 < bill[0]["usd"] <= 0.90
    assert stage.model.requests() == []
    assert stage.status()["lastRun"]["summary"].startswith("the controller decided: ")
    stage.wait_for_books()
