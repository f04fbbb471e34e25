"""What becomes of the machines when the resource goes, and the ways out when they cannot be destroyed."""

from support.asking import BY_HAND, LOOK, ask, codes, launch, offers, script
from support.servers import MARKET_KEY
from support.stage import NAME, Stage

BUSY = {"proofsPerHour": 5000}


def delete(stage: Stage) -> None:
    """As a person does who does not wait."""
    stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME, "--wait=false")


def wait_until_gone(stage: Stage, within_s: float = 60) -> None:
    stage.wait_for(lambda: not stage.resource(), "the resource is gone", within_s)


def a_fleet(stage: Stage, machines: int = 2) -> None:
    """So many machines of ours, bought by a run."""
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY)
    bought = ask(stage, [LOOK], [launch(offer) for offer in offers(stage)[:machines]])
    assert codes(bought) == ["done"] * machines


def test_the_resource_stays_until_the_last_machine_is_seen_to_be_gone_whoever_is_killed_meanwhile(stage: Stage) -> None:
    a_fleet(stage)
    stage.market.put("faults", {"list": "http_410"})
    delete(stage)
    stage.wait_for(lambda: stage.events("DeletionWaits"), "it waits for the market")
    fails = [{"kind": "http_500", "times": 4}, {"kind": "destroyed_then_504", "times": 1}]
    stage.market.put("faults", {"destroy": fails, "destroy_many": fails, "read_lag": {"destroy_seconds": 15}})
    stage.restart_operator()

    stage.wait_for(lambda: not stage.market.live(), "both are destroyed")
    assert stage.resource()["metadata"]["finalizers"]
    wait_until_gone(stage)

    assert {r["phase"] for r in stage.rows("SELECT phase FROM instances")} == {"gone"}
    stops = stage.rows("SELECT * FROM actions WHERE kind = 'stop'")
    assert [(a["by"], a["state"]) for a in stops] == [("deletion", "done")] * 2
    last = stage.runs()[-1]["run_id"]
    ask(stage, [LOOK], target=BUSY)
    assert [r["run_id"] for r in stage.runs()] == list(range(1, last + 2))
    stage.wait_for_books()


def test_a_destroy_that_came_too_early_does_not_let_the_machine_escape(stage: Stage) -> None:
    """It is created while the resource is deleted, no list shows it yet, and the market overhears the first destroy."""
    late = {"kind": "slow", "seconds": 2, "times": 1}
    faults = {"create": late, "destroy": {"kind": "ignored", "times": 1}, "read_lag": {"create_seconds": 8}}
    stage.market.put("faults", faults)
    stage.start_operator(settling_seconds="15")
    ask(stage, [LOOK], target=BUSY)
    script(stage, [LOOK], [launch(offers(stage)[0])])
    stage.annotate(requested_at="buy")
    stage.wait_for(stage.market.live, "the create is under way")

    delete(stage)
    wait_until_gone(stage)

    assert stage.market.live() == []
    assert stage.market.get("state")["created"] == 1
    stage.wait_for_books()


def test_a_market_that_is_down_keeps_the_resource_until_somebody_gives_the_machines_up(stage: Stage) -> None:
    a_fleet(stage)
    machine = str(stage.market.live()[0]["id"])
    stage.market.put("faults", {"list": "http_410", "destroy": "http_500", "destroy_many": "http_500"})

    delete(stage)
    stage.wait_for(lambda: stage.events("DeletionWaits"), "an Event says what keeps it")
    said = stage.events("DeletionWaits")[0]
    assert machine in said
    assert "fleetagent.dev/abandon=yes" in said
    assert stage.resource()["metadata"]["finalizers"]

    stage.annotate(abandon="yes")
    wait_until_gone(stage)
    stage.wait_for(lambda: machine in "".join(stage.events("MachinesAbandoned")), "people are told")
    assert len(stage.market.live()) == 2


def test_the_last_key_is_used_when_the_secret_goes_first(stage: Stage) -> None:
    a_fleet(stage)
    stage.cluster.kubectl("-n", stage.namespace, "delete", "secret", "vast")
    stage.wait_for(lambda: stage.condition("FleetKnown")["reason"] == "SecretMissing", "the Secret is missed")

    delete(stage)
    wait_until_gone(stage)

    assert stage.market.live() == []
    stage.wait_for_books()


def test_an_agent_that_never_had_a_machine_goes_at_once_whatever_is_wrong_with_it(stage: Stage) -> None:
    stage.start_operator()
    stage.cluster.kubectl("-n", stage.namespace, "delete", "secret", "vast")
    stage.apply(spec={"schedule": BY_HAND})
    stage.wait_for(lambda: stage.condition("FleetKnown").get("reason") == "SecretMissing", "the Secret is missed")
    delete(stage)
    wait_until_gone(stage, 20)

    secret = ("-n", stage.namespace, "create", "secret", "generic", "vast")
    stage.cluster.kubectl(*secret, "--from-literal=api-key=wrong-key")
    stage.apply(spec={"schedule": BY_HAND})
    stage.wait_for(lambda: stage.condition("FleetKnown").get("reason") == "MarketKeyRefused", "the key is refused")
    assert MARKET_KEY not in stage.log()
    delete(stage)
    wait_until_gone(stage, 20)
