"""Mode Approve on the real engine, ledger and market: what waits happens once, after a person agreed, or not at all."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from fleetagent.errors import Denied
from support.asked import World, a_world, ids
from support.asking import LOOK, launch, stop
from support.border import Border, Edit
from support.engine import NAME, StoredCluster, an_engine
from support.ledger import an_intent
from support.manifests import merged

APPROVE = {"mode": "Approve", "approvalExpiry": "15m"}


@pytest.fixture
def border() -> Border:
    """Lets everything pass until a test says otherwise."""
    return Border()


@pytest.fixture
async def world(database_url: str, border: Border) -> AsyncIterator[World]:
    async with a_world(database_url, border, APPROVE) as ready:
        yield ready


async def wish(world: World, nth: int = 0) -> str:
    """A run whose model wants to rent one offer; the name of the action that waits then."""
    assert await world.ask([LOOK], [launch(world.shown[nth])]) == ["waiting"]
    return f"action-{actions(world)[-1]['id']}"


def actions(world: World) -> list[dict[str, Any]]:
    return world.rows("SELECT * FROM actions ORDER BY id")


def states(world: World) -> list[str]:
    """What became of each action: its state, or the code of its refusal."""
    return [a["refusal"]["code"] if a["refusal"] else a["state"] for a in actions(world)]


async def say(world: World, **annotations: str) -> None:
    """A person annotates; whatever is due has happened afterwards."""
    world.engine.annotate(**annotations)
    await world.engine.beat()


def asked_since(world: World, before: int) -> int:
    """How often the model was asked."""
    return len(world.model.requests()) - before


def newest_facts(world: World) -> str:
    """The newest observation that the model saw."""
    query = "SELECT content FROM messages WHERE kind = 'observation' ORDER BY session_id DESC, seq DESC LIMIT 1"
    found: str = world.rows(query)[0]["content"]
    return found


def last_run(world: World) -> dict[str, Any]:
    return world.rows("SELECT * FROM runs ORDER BY run_id DESC LIMIT 1")[0]


async def test_a_wish_waits_with_its_price_is_told_and_happens_once_it_is_approved(world: World) -> None:
    name = await wish(world)

    assert world.calls("create") == (0,)
    (waiting,) = world.engine.cluster.status["waitingActions"]
    assert (waiting["id"], waiting["kind"], waiting["reason"]) == (name, "launch", "because")
    assert waiting["what"].startswith("1x RTX ")
    (told,) = world.engine.cluster.said("ApprovalNeeded")
    assert f"annotate --overwrite fleetagent {NAME} fleetagent.dev/approve={name}" in told
    assert f"for {actions(world)[0]['usd_per_hour']:.3f} USD/h" in told
    answer = world.rows('SELECT content::jsonb AS it FROM messages WHERE content LIKE \'{"ok":false,"waiting"%%\'')
    assert answer[0]["it"]["waiting"]["action"] == name
    assert last_run(world)["outcome"] == "Waiting"

    before = len(world.model.requests())
    await say(world, approve=name)

    assert world.calls("create") == (1,)
    assert states(world) == ["done"]
    run = last_run(world)
    assert (run["triggers"], run["outcome"], run["model_calls"]) == (["Approval"], "Acted", 0)
    assert run["verdict"] == {"action": True, "state_changed": True}
    assert asked_since(world, before) == 0
    assert world.engine.cluster.status["lastHandledApprove"] == name
    assert world.engine.cluster.status["waitingActions"] == []
    assert world.engine.cluster.said("ActionApproved") == [f"{name}: checked once more, then done"]
    assert world.engine.cluster.said("NothingWaiting") == []
    await world.engine.beat(minutes=5)
    world.check_books()


async def test_the_agent_is_told_what_became_of_its_wishes_once(world: World) -> None:
    first, second, third = await wish(world, 0), await wish(world, 1), await wish(world, 2)
    assert f"Waiting for a person: {first} launch" in newest_facts(world)
    await say(world, approve=first, reject=second)
    await world.engine.beat(minutes=16)  # what becomes of the machine meanwhile may call for a run of its own
    await world.ask([LOOK])
    await world.ask([LOOK])

    (told,) = world.rows(
        "SELECT content, quiet FROM messages JOIN runs USING (agent_id, run_id)"
        " WHERE kind = 'observation' AND content LIKE '%%Decided%%'"
    )
    assert re.search(
        rf"Decided: {first} \(launch .*\) was approved and done: \d+; {second} .*rejected by a person", told["content"]
    )
    assert f"{third} (launch" in told["content"]
    assert "has expired: nobody approved it in time" in told["content"]
    assert not told["quiet"]


async def test_what_waits_counts_against_every_limit(world: World) -> None:
    world.engine.change(limits={"maxInstances": 2, "launchesPerRun": 2, "launchesPerHour": 2})
    offers = world.shown

    assert await world.ask([LOOK], [launch(offers[0]), launch(offers[0]), launch(offers[1]), launch(offers[2])]) == [
        "waiting",
        "SameIntentInFlight",
        "waiting",
        "TooManyInstances",
    ]
    world.engine.change(limits={"maxInstances": 9})
    assert await world.ask([LOOK], [launch(offers[2])]) == ["LaunchesPerHour"]
    await say(world, approve=",".join(f"action-{a['id']}" for a in actions(world) if a["state"] == "waiting"))

    assert world.calls("create") == (2,)
    assert await world.ask([LOOK], [launch(offers[2])]) == ["LaunchesPerHour"]
    world.check_books()


async def test_launches_in_an_hour_are_counted_when_they_happen(world: World) -> None:
    world.engine.change(approvalExpiry="3h", limits={"launchesPerHour": 1})
    name = await wish(world)

    world.engine.annotate(approve=name)
    await world.engine.beat(minutes=70)

    assert states(world) == ["done"]
    assert await world.ask([LOOK], [launch(world.shown[1])]) == ["LaunchesPerHour"]
    assert await world.ask([LOOK], [launch(world.shown[1])], minutes=61) == ["waiting"]


async def test_a_rejection_is_obeyed_while_a_run_goes_on(world: World) -> None:
    name = await wish(world)
    world.model.put("hold")
    world.engine.annotate(requested_at="think")
    await world.engine.passed()
    world.engine.annotate(reject=name)

    await world.engine.passed()

    assert world.engine.keeper._run is not None, "the model thinks"
    assert states(world) == ["rejected"]
    world.model.delete("hold")
    await world.engine.beat()
    assert world.engine.cluster.status["lastHandledReject"] == name
    assert world.engine.cluster.said("ActionRejected") == [f"{name}: the agent is told in its next run"]


async def test_a_stop_waits_too_and_the_same_machine_is_not_asked_for_twice(world: World) -> None:
    await say(world, approve=await wish(world, 0))
    await world.engine.beat(minutes=5)
    (machine,) = ids(world.live())
    world.engine.change(target={"proofsPerHour": 0}, limits={"minInstanceAge": "0s"})

    assert await world.ask([stop(machine), stop(machine)]) == ["waiting", "SameIntentInFlight"]
    assert world.calls("destroy") == (0,)
    name = f"action-{actions(world)[-2]['id']}"
    await say(world, approve=name)

    assert world.calls("destroy") == (1,)
    assert [a["state"] for a in actions(world) if a["kind"] == "stop"] == ["done", "refused"]
    await world.engine.beat(minutes=5)
    assert world.held() == {}
    world.check_books()


async def test_a_rejected_action_never_happens_whatever_is_approved_afterwards(world: World) -> None:
    name = await wish(world)

    await say(world, reject=name)
    await say(world, approve=name)

    assert states(world) == ["rejected"]
    assert world.calls("create") == (0,)
    assert world.engine.cluster.said("ActionRejected") == [f"{name}: the agent is told in its next run"]
    assert world.engine.cluster.said("NothingWaiting") == [f"fleetagent.dev/approve: {name}: rejected"]
    assert last_run(world)["triggers"] == ["Request"], "neither word called for a run"


async def test_who_approves_and_rejects_in_one_edit_has_rejected(world: World) -> None:
    name, other = await wish(world, 0), await wish(world, 1)

    await say(world, approve=f"{name},{other}", reject=name)

    assert states(world) == ["rejected", "done"]
    assert world.calls("create") == (1,)


@pytest.mark.parametrize("later", [timedelta(minutes=14, seconds=50), timedelta(minutes=15, seconds=10)], ids=str)
async def test_an_action_waits_until_its_expiry_and_no_longer(world: World, later: timedelta) -> None:
    world.engine.clock.stand_still()
    name = await wish(world)
    in_time = later < timedelta(minutes=15)

    world.engine.annotate(approve=name)
    await world.engine.beat(seconds=later.total_seconds())

    assert states(world) == (["done"] if in_time else ["expired"])
    assert world.calls("create") == (int(in_time),)
    assert len(world.engine.cluster.said("ApprovalExpired")) == (not in_time)
    assert world.engine.cluster.status["waitingActions"] == []


async def test_an_expired_action_makes_room_and_may_be_asked_for_again(world: World) -> None:
    world.engine.change(limits={"maxInstances": 1})
    await wish(world)
    assert await world.ask([LOOK], [launch(world.shown[1])]) == ["TooManyInstances"]

    assert await world.ask([LOOK], [launch(world.shown[0])], minutes=16) == ["waiting"]

    assert states(world) == ["expired", "TooManyInstances", "waiting"]


async def test_an_approval_is_checked_again_and_refused_when_the_price_rose_or_the_offer_is_gone(
    world: World, border: Border
) -> None:
    dearer, gone = await wish(world, 0), await wish(world, 1)
    border.edits["search"] = _with_prices_up(world.shown[0], without=world.shown[1])

    await say(world, approve=f"{dearer},{gone}")

    assert states(world) == ["OfferDearer", "OfferGone"]
    assert world.calls("create") == (0,)
    assert last_run(world)["outcome"] == "Refused"
    assert [dearer in m or gone in m for m in world.engine.cluster.said("ActionRefused")] == [True, True]
    border.edits.clear()
    await world.ask([LOOK])
    assert "was approved, but refused (OfferDearer)" in newest_facts(world)


@pytest.mark.parametrize(
    ("held_back", "code"),
    [
        ({"mode": "DryRun"}, "DryRun"),
        ({"pause": {"until": "2099-01-01T00:00:00Z", "directions": ["Up"]}}, "Paused"),
        ({"budget": {"fleetUsdPerHour": "0.01"}}, "OverHourlyBudget"),
        ({"target": {"proofsPerHour": 0}}, "OnTarget"),
        ({"demand": {"static": {"active": False}}}, "OnTarget"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_holds_the_agent_back_by_now_refuses_what_was_approved(
    world: World, held_back: dict[str, Any], code: str
) -> None:
    name = await wish(world)
    world.engine.change(schedule={"interval": "23h"}, **held_back)

    await say(world, approve=name)

    assert states(world)[0] == code
    assert world.calls("create") == (0,)


async def test_the_installations_stop_refuses_what_was_approved(world: World) -> None:
    name = await wish(world)
    world.engine.cluster.stop = "audit"

    await say(world, approve=name)

    assert states(world) == ["InstallationStopped"]
    assert world.calls("create") == (0,)


async def test_actions_go_on_waiting_when_the_mode_changes_to_act(world: World) -> None:
    name = await wish(world)
    world.engine.change(mode="Act")
    await world.engine.beat()
    assert states(world)[0] == "waiting"

    await say(world, approve=name)

    assert states(world)[0] == "done"
    world.check_books()


async def test_while_suspended_nothing_begins_and_an_approval_does_not_outlive_its_hour(world: World) -> None:
    first, second = await wish(world, 0), await wish(world, 1)
    world.engine.change(mode="Suspended")
    await say(world, approve=first)
    await world.engine.beat(minutes=50)
    assert states(world) == ["waiting", "expired"], second

    await world.engine.beat(minutes=20)
    world.engine.change(mode="Approve")
    await world.engine.beat()

    assert states(world)[:2] == ["expired", "expired"]
    assert world.calls("create") == (0,)


async def test_every_name_in_an_annotation_is_answered(world: World) -> None:
    done, waits = await wish(world, 0), await wish(world, 1)
    await say(world, approve=done)
    foreign = _of_another_agent(world)

    await say(world, approve=f" {waits.upper()} ,{done};action-999, action-{foreign}, alert-1, {waits}")

    assert states(world)[:2] == ["done", "done"]
    (said,) = world.engine.cluster.said("NothingWaiting")
    assert f"{done}: already done" in said
    assert "action-999: unknown" in said
    assert f"action-{foreign}: not this agent's" in said
    assert "'alert-1': not an action's name" in said
    assert world.calls("create") == (2,)
    assert world.rows("SELECT state FROM actions WHERE id = %s", foreign)[0]["state"] == "waiting"


async def test_an_approval_during_a_run_is_served_by_the_next_one_together_with_what_else_waits(world: World) -> None:
    name = await wish(world)
    world.engine.annotate(requested_at="now", approve=name, message="go on")

    before = len(world.model.requests())
    await world.engine.beat()

    assert set(last_run(world)["triggers"]) == {"Approval", "Request", "Feedback"}
    assert asked_since(world, before) > 0
    assert "was approved and done" in newest_facts(world)
    assert last_run(world)["outcome"] == "Acted"


async def test_two_processes_that_hear_the_same_word_begin_the_action_once(world: World, database_url: str) -> None:
    name = await wish(world)
    world.engine.annotate(approve=name)
    other_cluster = StoredCluster(merged(world.engine.cluster.body, {}))

    async with an_engine(database_url, other_cluster, clock=world.engine.clock, owner="two") as two:
        for _ in range(3):
            await asyncio.gather(world.engine.beat(), two.beat())

    assert world.calls("create") == (1,)
    assert states(world) == ["done"]
    world.check_books()


async def test_an_approval_outlives_a_process_that_ends_before_the_run(world: World) -> None:
    name = await wish(world)
    ledger, now = world.engine.built.triggers._keeping.ledger, world.engine.clock.now()
    answers, called = await ledger.approve(1, [int(name.removeprefix("action-"))], name, now)
    assert (answers[0].is_new, called) == (True, True)
    again = await ledger.approve(1, [answers[0].action_id], name, now)
    assert (again[0][0].is_new, again[1]) == (False, False), "said twice, heard once"

    await say(world, approve=name)

    assert world.calls("create") == (1,)
    assert states(world) == ["done"]
    assert world.rows("SELECT count(*) AS runs FROM runs WHERE triggers @> '[\"Approval\"]'")[0]["runs"] == 1


async def test_a_run_that_ended_between_approval_and_intent_gives_the_approval_back(world: World) -> None:
    name = await wish(world)
    process = world.engine.built.triggers._keeping
    lease = await process.agents.take_lease(1)
    assert lease is not None
    await process.ledger.approve(1, [int(name.removeprefix("action-"))], name, world.engine.clock.now())
    await process.runs.claim(lease, world.engine.clock.now())  # and dies

    await say(world, approve=name)

    assert [r["state"] for r in world.rows("SELECT state FROM runs ORDER BY run_id")][-2:] == [
        "interrupted",
        "finished",
    ]
    assert world.calls("create") == (1,)
    assert states(world) == ["done"]


async def test_an_intent_whose_process_died_before_the_market_heard_of_it_is_never_tried_again(world: World) -> None:
    name = await wish(world)
    process, number = world.engine.built.triggers._keeping, int(name.removeprefix("action-"))
    lease = await process.agents.take_lease(1)
    assert lease is not None
    await process.ledger.approve(1, [number], name, world.engine.clock.now())
    run = await process.runs.claim(lease, world.engine.clock.now())
    await process.ledger.intend_launch(run, an_intent(approved=number), world.engine.clock.now())
    with pytest.raises(Denied, match="waits no more"):
        await process.ledger.intend_launch(run, an_intent(2, approved=number), world.engine.clock.now())

    await say(world, approve=name)
    for _ in range(5):
        await world.engine.beat(minutes=3)

    assert world.calls("create") == (0,)
    assert states(world)[0] == "failed"
    assert world.held() == {}


async def test_an_unclear_create_of_an_approved_action_is_one_machine(world: World, border: Border) -> None:
    name = await wish(world)
    border.edits["create"] = _breaks_after_the_effect

    await say(world, approve=name)
    assert last_run(world)["outcome"] == "Unclear"
    border.edits.clear()
    await say(world, approve=f"{name} again")
    await world.engine.beat(minutes=5)

    assert world.calls("create") == (1,)
    assert states(world) == ["done"]
    world.check_books()


async def test_a_reset_lets_actions_wait_and_a_deletion_ends_them(world: World) -> None:
    name = await wish(world)
    await say(world, reset_requested_at="now")
    assert states(world) == ["waiting"]

    process = world.engine.built.triggers._keeping
    lease = await process.agents.take_lease(1)
    assert lease is not None
    await process.agents.forget(lease, world.engine.cluster.body["metadata"]["uid"])

    assert states(world) == ["expired"], name
    assert (await process.ledger.pulse(1, 0, world.engine.clock.now())).decided == ()


async def test_in_dry_run_it_is_recorded_what_would_have_been_and_what_it_would_cost_and_make(world: World) -> None:
    world.engine.change(mode="DryRun")

    assert await world.ask([LOOK], [launch(world.shown[0])]) == ["DryRun"]

    (action,) = actions(world)
    assert action["usd_per_hour"] > 0
    assert action["wish"]["proofs_per_hour"] > 0
    figures = f"expected {action['usd_per_hour']:.3f} USD/h and {action['wish']['proofs_per_hour']:.0f} p/h"
    assert f"would have launched {action['wish']['what']}, {figures}" in last_run(world)["summary"]
    assert "proofs/h" in action["refusal"]["sentence"]
    assert world.engine.cluster.status["waitingActions"] == []


def _with_prices_up(dearer: str, *, without: str) -> Edit:
    async def edit(_: httpx.Request, send: Any) -> httpx.Response:
        said = (await send()).json()
        offers = [o for o in said["offers"] if str(o["id"]) != without]
        for offer in offers:
            if str(offer["id"]) == dearer:
                offer |= {key: offer[key] + 0.05 for key in ("dph_base", "dph_total")}
        return httpx.Response(200, json=said | {"offers": offers})

    return edit


async def _breaks_after_the_effect(request: httpx.Request, send: Any) -> httpx.Response:
    await send()
    raise httpx.ReadError("reset", request=request)


def _of_another_agent(world: World) -> int:
    """An action of somebody else that waits."""
    other = world.rows(
        "INSERT INTO agents (cluster, namespace, name, uid) VALUES ('test', 'prod', 'other', 'u') RETURNING id"
    )[0]["id"]
    found: int = world.rows(
        "INSERT INTO actions (agent_id, run_id, intent_key, kind, by, state, usd_per_hour, wish, expires_at) VALUES "
        "(%s, 1, 'k', 'launch', 'model', 'waiting', 0.5, '{}', now() + interval '1 day') RETURNING id",
        other,
    )[0]["id"]
    return found
