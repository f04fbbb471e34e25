"""A market that cannot be read is never an empty one, and a create that nobody answered for is never made again."""

import httpx
import pytest

from support.asking import LOOK, ask, codes, launch, offers, stop
from support.servers import MARKET_KEY
from support.stage import Stage

BUSY = {"proofsPerHour": 5000}
UNREADABLE = [
    *("http_410", "deprecated_200", "http_401", "http_500", "html", "empty_string", "empty_object"),
    *("null_instances", "half_page", "empty_list", "partial"),
]
"""`half_page` ends early, `empty_list` forgets everything, `partial` one machine."""


@pytest.fixture
def two_machines(stage: Stage) -> None:
    """Two machines of ours are on their way."""
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY)
    shown = offers(stage)
    assert codes(ask(stage, [LOOK], [launch(shown[0]), launch(shown[1])])) == ["done", "done"]
    stage.wait_for(lambda: len(_listed(stage)) == 2, "the list shows both")


def _listed(stage: Stage) -> list[dict[str, object]]:
    return stage.rows("SELECT * FROM instances WHERE market_status IS NOT NULL")


def open_alerts(stage: Stage) -> list[str]:
    return [a["code"] for a in stage.rows("SELECT code FROM alerts WHERE state = 'open'")]


@pytest.mark.usefixtures("two_machines")
def test_nothing_is_launched_or_stopped_while_the_list_cannot_be_read(stage: Stage) -> None:
    offer, victim = offers(stage)[4], str(stage.market.live()[0]["id"])

    for kind in UNREADABLE:
        stage.market.put("faults", {"list": kind})
        refused = codes(ask(stage, [LOOK], [launch(offer), stop(victim)]))
        assert refused == ["FleetUnknown", "FleetUnknown"], kind
        stage.wait_for(lambda: stage.condition("FleetKnown")["status"] == "False", f"{kind} is said")
        assert open_alerts(stage) == ["FleetUnknown"], kind
        assert stage.status()["fleet"]["instances"] == 2, "the last good view stands"

        stage.market.delete("faults")
        stage.wait_for(lambda: stage.condition("FleetKnown")["status"] == "True", f"recovery from {kind}")
        assert open_alerts(stage) == [], kind

    calls = stage.market.get("state")["calls"]
    assert (calls["create"], calls["destroy"]) == (2, 0)
    assert codes(ask(stage, [LOOK], [launch(offer)])) == ["done"]
    stage.wait_for_books()


@pytest.mark.usefixtures("two_machines")
def test_a_list_that_hangs_holds_up_neither_the_health_check_nor_the_next_run(stage: Stage) -> None:
    stage.market.put("faults", {"list": {"kind": "timeout", "seconds": 3, "times": 3}})

    refused = codes(ask(stage, [LOOK], [launch(offers(stage)[4])]))

    assert refused in (["FleetUnknown"], ["done"])  # the third hanging call may fall into the look before the run
    stage.wait_for(lambda: stage.condition("FleetKnown")["status"] == "True", "recovery")
    assert codes(ask(stage, [LOOK], [stop(str(stage.market.live()[0]["id"]))])) == ["BelowTarget"]
    stage.wait_for_books()


@pytest.mark.usefixtures("two_machines")
def test_another_account_says_nothing_about_our_machines(stage: Stage) -> None:
    stage.market.put("faults", {"account": "other_account"})

    refused = ask(stage, [LOOK], [launch(offers(stage)[4]), stop(str(stage.market.live()[0]["id"]))])

    assert codes(refused) == ["FleetUnknown"] * 2
    stage.wait_for(lambda: stage.condition("FleetKnown").get("reason") == "AccountChanged", "AccountChanged")
    stage.market.delete("faults")
    stage.wait_for(lambda: stage.condition("FleetKnown")["status"] == "True", "the old account is back")
    stage.wait_for_books()


@pytest.mark.parametrize("lag_s", [0.0, 3.0], ids=["seen at once", "reads lag"])
def test_a_create_that_took_effect_without_an_answer_is_adopted_and_never_made_again(
    stage: Stage, lag_s: float
) -> None:
    stage.start_operator(settling_seconds="8")
    ask(stage, [LOOK], target=BUSY)
    shown = offers(stage)
    kinds = ["created_then_504", "created_then_reset", "created_then_no_id", "created_then_error_with_id"]
    lag = {"create_seconds": lag_s, "label_seconds": lag_s, "destroy_seconds": lag_s}
    faults = [{"kind": kind, "times": 1} for kind in kinds]
    stage.market.put("faults", {"create": faults, "read_lag": lag})

    wished = ask(stage, [LOOK], [launch(offer) for offer in shown[:4]])
    again = ask(stage, [LOOK], [launch(offer) for offer in shown[:4]])

    assert set(codes(wished)) <= {"unknown", "done"}  # done: adopted while the run went on
    assert not {"done", "unknown"} & set(codes(again))
    stage.wait_for_books()
    stage.wait_for(lambda: _states(stage, wished) == ["done"] * 4, "every doubt is settled")
    state = stage.market.get("state")
    assert (state["created"], state["calls"]["create"], state["calls"]["destroy"]) == (4, 4, 0)
    ids = {r["label"]: r["provider_id"] for r in stage.rows("SELECT * FROM instances")}
    assert ids == {m["label"]: str(m["id"]) for m in state["machines"]}


def _states(stage: Stage, actions: list[dict[str, object]]) -> list[str]:
    first = actions[0]["run_id"]
    return [r["state"] for r in stage.rows("SELECT state FROM actions WHERE run_id = %s ORDER BY id", first)]


def test_an_intent_that_never_became_a_machine_counts_until_it_is_given_up_and_costs_nothing(stage: Stage) -> None:
    stage.start_operator(settling_seconds="20")
    ask(stage, [LOOK], target=BUSY)
    shown = offers(stage)
    stage.market.put("faults", {"create": {"kind": "timeout", "seconds": 0.2, "times": 1}})

    wished = ask(stage, [LOOK], [launch(shown[0])])
    assert codes(wished) == ["unknown"]
    stage.wait_for(lambda: stage.status()["fleet"]["instances"] == 1, "it counts as a machine")
    stage.wait_for(lambda: _states(stage, wished) == ["failed"], "it is given up")
    stage.wait_for(lambda: stage.status()["fleet"]["instances"] == 0, "it counts no more")

    assert stage.market.get("state")["created"] == 0
    spent = stage.rows("SELECT sum(usd) AS usd FROM spend WHERE kind = 'fleet'")[0]["usd"]
    assert abs(spent) < 1e-6, "but for the rounding of each look's share"
    ask(stage, [LOOK])
    assert codes(ask(stage, [LOOK], [launch(offers(stage)[0])])) == ["done"]
    stage.wait_for_books()


def test_a_machine_that_is_dearer_than_its_offer_is_given_back(stage: Stage) -> None:
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY)
    stage.market.put("faults", {"create": {"kind": "dearer", "times": 1}})

    assert codes(ask(stage, [LOOK], [launch(offers(stage)[0])])) == ["done"]

    stage.wait_for(lambda: not stage.market.live(), "the machine is destroyed")
    stage.wait_for_books()
    row = stage.rows("SELECT * FROM instances")[0]
    assert "ordered at" in row["failure"]
    assert (
        httpx.get(f"{stage.market.base_url}/api/v1/instances/", headers=_key(), trust_env=False).json()["instances"]
        == []
    )


def _key() -> dict[str, str]:
    return {"Authorization": f"Bearer {MARKET_KEY}"}
