"""The resource is deleted in whichever state it is: its machines go, then it goes; no run, launch or stop besides."""

from collections.abc import Callable

import pytest
import yaml

from support.asking import BY_HAND, LOOK, ask, codes, launch, offers, script
from support.stage import NAME, Stage
from support.steering import hold_model, patch, release_model, wait_until_held

BUSY = {"proofsPerHour": 5000}
GOES_WITHIN_S = 40.0


def delete(stage: Stage) -> None:
    """As a person does who does not wait."""
    stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME, "--wait=false")


def wait_until_gone(stage: Stage, within_s: float = GOES_WITHIN_S) -> None:
    stage.wait_for(lambda: not stage.resource(), "the resource is gone", within_s)


def a_fleet(stage: Stage, **settings: str) -> None:
    """Two machines of ours, bought by a run."""
    stage.start_operator(**settings)
    ask(stage, [LOOK], target=BUSY)
    bought = ask(stage, [LOOK], [launch(offer) for offer in offers(stage)[:2]])
    assert codes(bought) == ["done"] * 2


def never_run(stage: Stage) -> None:
    stage.start_operator()
    stage.apply(spec={"mode": "Suspended"})
    stage.wait_for(lambda: stage.condition("Suspended").get("status") == "True", "it is kept, and has no run")
    assert stage.runs() == []


def no_machine(stage: Stage) -> None:
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY)


def loading(stage: Stage) -> None:
    stage.market.put("faults", {"read_lag": {"create_seconds": 3}})
    a_fleet(stage, settling_seconds="15")


def proving(stage: Stage) -> None:
    a_fleet(stage)
    stage.wait_for(lambda: stage.status()["fleet"]["proving"] == 2, "both prove")


def suspended(stage: Stage) -> None:
    proving(stage)
    patch(stage, '{"spec":{"mode":"Suspended"}}')
    stage.wait_for(lambda: stage.condition("Suspended")["status"] == "True", "it is suspended")


def dry_run(stage: Stage) -> None:
    proving(stage)
    ask(stage, [LOOK], target=BUSY, mode="DryRun")


def paused(stage: Stage) -> None:
    proving(stage)
    patch(stage, '{"spec":{"pause":{"until":"2099-01-01T00:00:00Z","directions":["Up","Down"]}}}')
    stage.wait_for(lambda: stage.condition("Suspended")["status"] == "True", "it is paused")


def stopped(stage: Stage) -> None:
    proving(stage)
    stage.cluster.kubectl("-n", stage.home, "create", "configmap", "fleetagent-stop")


def thinking(stage: Stage) -> None:
    proving(stage)
    hold_model(stage)
    runs = len(stage.runs())
    stage.annotate(requested_at="think")
    wait_until_held(stage, runs + 1)


def killed_while_thinking(stage: Stage) -> None:
    """The operator dies in the middle of a run, and the resource is deleted before there is another one."""
    thinking(stage)
    stage.kill_operator()
    delete(stage)
    stage.start_operator()


def reset_wanted(stage: Stage) -> None:
    """With annotations that nobody has served when it is deleted."""
    thinking(stage)
    stage.kill_operator()
    stage.annotate(requested_at="later", reset_requested_at="later", message="never heard")
    stage.start_operator()


def waiting_for_approval(stage: Stage) -> None:
    proving(stage)
    ask(stage, [LOOK], target=BUSY, mode="Approve")
    asked = ask(stage, [LOOK], [launch(offers(stage)[0])])
    assert codes(asked) == ["waiting"]
    stage.kill_operator()
    stage.annotate(approve=f"action-{asked[0]['id']}")
    delete(stage)  # agreed to, and nobody has seen it yet
    stage.start_operator()


def down(stage: Stage) -> None:
    """No operator is there when it is deleted."""
    proving(stage)
    stage.kill_operator()
    delete(stage)
    assert stage.resource()["metadata"]["deletionTimestamp"]
    stage.start_operator()


def database_lost(stage: Stage) -> None:
    """The ledger knows of nothing; the status and the market do."""
    proving(stage)
    stage.kill_operator()
    stage.rows("DELETE FROM agents RETURNING id")
    hold_model(stage)  # what is decided next would be decided without a ledger
    stage.start_operator()


STATES = (
    never_run,
    no_machine,
    loading,
    proving,
    suspended,
    dry_run,
    paused,
    stopped,
    thinking,
    killed_while_thinking,
    reset_wanted,
    waiting_for_approval,
    down,
    database_lost,
)


@pytest.mark.parametrize("state", STATES)
def test_its_machines_end_and_then_it_goes(stage: Stage, state: Callable[[Stage], None]) -> None:
    state(stage)
    before = stage.market.get("state")
    created, runs = before["calls"]["create"], len(stage.runs())

    delete(stage)
    wait_until_gone(stage)

    release_model(stage)
    after = stage.market.get("state")
    assert stage.market.live() == []
    assert after["calls"]["create"] == created
    assert len(stage.runs()) in {runs, runs + 1}  # one that had begun before the operator heard of it
    assert [r for r in stage.runs() if r["state"] == "running"] == []
    assert stage.rows("SELECT 1 FROM agents WHERE deleted_at IS NULL") == []
    assert stage.rows("SELECT 1 FROM triggers WHERE state = 'pending'") == []
    assert stage.rows("SELECT 1 FROM actions WHERE state = 'waiting'") == []
    assert {r["by"] for r in stage.rows("SELECT by FROM actions WHERE kind = 'stop'")} <= {"deletion"}


@pytest.mark.parametrize("state", [proving, suspended, down])
def test_with_retain_it_goes_at_once_and_its_machines_stay(stage: Stage, state: Callable[[Stage], None]) -> None:
    _retained(stage, state)
    labels = {m["label"] for m in stage.market.live()}

    delete(stage)
    wait_until_gone(stage, 20)

    assert len(labels) == 2
    assert {m["label"] for m in stage.market.live()} == labels
    stage.wait_for(lambda: stage.events("MachinesRetained"), "that they stay is said")


def _retained(stage: Stage, state: Callable[[Stage], None]) -> None:
    if state is not down:
        state(stage)
        hold_model(stage)  # a changed spec calls for a run, which is to buy nothing
        patch(stage, '{"spec":{"deletionPolicy":"Retain"}}')
        return
    proving(stage)
    stage.kill_operator()
    patch(stage, '{"spec":{"deletionPolicy":"Retain"}}')
    delete(stage)
    stage.start_operator()


def why(stage: Stage) -> str:
    """What the status says of what keeps it."""
    ready = stage.condition("Ready")
    return str(ready.get("message")) if ready.get("reason") == "DeletionWaits" else ""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"list": "http_500"}, "the fleet is unknown"),
        ({"destroy": "http_500", "destroy_many": "http_500"}, "machines are being destroyed"),
    ],
    ids=["its list", "its destroy"],
)
def test_a_market_that_fails_keeps_it_which_is_said_until_the_market_is_back(
    stage: Stage, fault: dict[str, str], said: str
) -> None:
    proving(stage)
    stage.market.put("faults", fault)

    delete(stage)
    stage.wait_for(lambda: stage.events("DeletionWaits"), "an Event says what keeps it")
    stage.wait_for(lambda: said in why(stage), "so does the status")
    assert "fleetagent.dev/abandon=yes" in why(stage)
    assert "fleetagent.dev/abandon=yes" in stage.events("DeletionWaits")[0]

    stage.market.put("faults", {})
    wait_until_gone(stage, 60)
    assert stage.market.live() == []


def test_a_finalizer_that_is_taken_off_lets_it_go_and_the_machines_left_behind_are_named(stage: Stage) -> None:
    proving(stage)
    ids = [str(m["id"]) for m in stage.market.live()]
    stage.market.put("faults", {"list": "http_500"})
    delete(stage)
    stage.wait_for(lambda: stage.events("DeletionWaits"), "it waits for the market")

    patch(stage, '{"metadata":{"finalizers":null}}')
    wait_until_gone(stage, 10)
    stage.wait_for(lambda: stage.events("MachinesAbandoned"), "that nobody watches them is said")

    (told,) = stage.events("MachinesAbandoned")
    assert all(machine in told for machine in ids)
    assert stage.rows("SELECT 1 FROM agents WHERE deleted_at IS NULL") == []
    stage.market.put("faults", {})
    stage.apply(spec={"mode": "Suspended"})
    stage.wait_for(lambda: stage.status().get("fleet", {}).get("instances") == 2, "its namesake goes on with them")
    stage.check_books()


def test_made_anew_while_it_is_being_deleted_is_refused_and_afterwards_a_new_session(stage: Stage) -> None:
    """As `kubectl replace --force` does: it waits until the old one, with its machines, is gone."""
    proving(stage)
    runs = len(stage.runs())
    script(stage, [LOOK])
    manifest = stage.manifest(spec={"schedule": BY_HAND, "target": BUSY})
    stage.cluster.kubectl("replace", "--force", "-f", "-", stdin=yaml.safe_dump(manifest))

    stage.wait_for(lambda: len(stage.runs()) > runs, "the new one runs")
    assert stage.market.live() == []
    assert [r["run_id"] for r in stage.runs()] == list(range(1, runs + 2))
    assert len(stage.rows("SELECT * FROM sessions")) == 2
