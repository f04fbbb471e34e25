"""Alerts go out once, to everybody, whatever receivers and processes do meanwhile."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest

from fleetagent.adapters.postgres.notices import PostgresOutbox
from fleetagent.domain.receivers import Receiver
from fleetagent.domain.records import AgentKey
from support.receivers import Inbox, an_inbox
from support.stores import KEY, Process
from support.telling import telling

OTHER = AgentKey("prod", "snap")


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with an_inbox() as box:
        yield box


@pytest.fixture
def broken() -> Iterator[Inbox]:
    """A receiver that fails until a test mends it."""
    with an_inbox() as box:
        box.behaviour = "500"
        yield box


async def test_what_happens_to_an_alert_arrives_once_and_in_order(one: Process, inbox: Inbox) -> None:
    async with telling(one, "# on call", inbox.url) as desk:
        alert = await desk.raise_alert("OverBudget", "over budget")
        await desk.until_states("new sent")
        await one.runs.acknowledge((await one.agent()).id, alert or 0, "known outage", "acknowledge:1")
        await one.runs.acknowledge((await one.agent()).id, alert or 0, "known outage", "acknowledge:1")
        await desk.until_states("new sent", "acknowledged sent")
        await one.runs.resolve_alerts((await one.agent()).id, "OverBudget")
        await one.runs.resolve_alerts((await one.agent()).id, "OverBudget")
        await desk.until_states("new sent", "acknowledged sent", "resolved sent")

    assert inbox.titles == [
        f"New warning alert-{alert} (OverBudget), FleetAgent prod/porep",
        f"Acknowledged alert-{alert} (OverBudget), FleetAgent prod/porep",
        f"Resolved alert-{alert} (OverBudget), FleetAgent prod/porep",
    ]
    assert "Comment: known outage" in inbox.messages[1]["message"]
    assert [message["type"] for message in inbox.messages] == ["warning", "info", "success"]


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("500", "it answered 500"),
        ("429", "it answered 429"),
        ("302", "it answered 302"),
        ("reset", "no connection, or no whole answer"),
        ("hang", "no answer within 2 s"),
        ("drip", "no answer within 2 s"),
    ],
)
async def test_what_a_receiver_does_not_take_is_said_tried_again_and_arrives_once(
    one: Process, inbox: Inbox, behaviour: str, said: str
) -> None:
    inbox.behaviour = behaviour
    patience_s = 2 if behaviour in {"hang", "drip"} else 20
    async with telling(one, inbox.url, patience_s=patience_s) as desk:
        await desk.raise_alert("OverBudget")
        await desk.until(lambda: desk.reason() == "ReceiverFailed", "it has failed")
        await desk.until(lambda: KEY in desk.nudged, "the report is called for")
        (row,) = await one.rows("SELECT *, next_try_at - now() AS wait, next_try_at - at AS later FROM notifications")
        assert row["state"] == "waiting"
        assert row["wait"] <= timedelta(seconds=15) <= row["later"]
        assert row["error"] == (
            f"spec.alerts.notifySecretRef: line 1 (json://) did not take it: {said}; it is tried again"
        )
        assert inbox.messages == []

        inbox.behaviour = "take"
        inbox.over.set()  # what hung has ended
        while await desk.states() != ["new sent"]:
            await desk.due_again()
            await asyncio.sleep(0.1)

        await desk.until(lambda: desk.reason() is None, "it is well again")
    assert len(inbox.messages) == 1


async def test_a_receiver_that_fails_keeps_nobody_else_waiting_and_gets_later_what_it_lacks(
    one: Process, inbox: Inbox, broken: Inbox
) -> None:
    async with telling(one, broken.url, inbox.url) as desk:
        for number, code in enumerate(("OverBudget", "CreditLow"), start=1):
            await desk.raise_alert(code)
            await desk.until(partial(inbox.has, number), "the healthy one has it")
        assert await desk.states() == ["new waiting", "new waiting"]
        broken.behaviour = "take"
        await desk.due_again()
        await desk.until_states("new sent", "new sent")

    assert broken.titles == inbox.titles
    assert len(inbox.titles) == 2


async def test_a_flood_is_one_message_that_says_how_many_more(one: Process, inbox: Inbox) -> None:
    async with telling(one) as desk:
        for number in range(13):
            await desk.raise_alert("Model", f"host {'abcdefghijklm'[number]} fails")
        await desk.until(lambda: desk.reason() == "SecretMissing", "there is no Secret yet")
        await desk.until_rows("SELECT 1 FROM notifications WHERE next_try_at > now() HAVING count(*) = 13")
        desk.cluster.text = inbox.url
        await desk.due_again()
        await desk.until_states(*["new sent"] * 13)

    (title,) = inbox.titles
    assert title.endswith("and 12 more, FleetAgent prod/porep")


async def test_more_than_somebody_can_read_waits_for_its_turn_and_then_comes_together(
    one: Process, inbox: Inbox
) -> None:
    clock = [0.0]
    async with telling(one, inbox.url, steady=lambda: clock[0]) as desk:
        for number in range(8):
            await desk.raise_alert(f"Code{number}")
            await desk.until_states(*["new sent"] * (number + 1))
        for number in range(8, 13):
            await desk.raise_alert(f"Code{number}")
        await desk.until_rows("SELECT 1 FROM notifications WHERE state = 'waiting' AND next_try_at > now()")
        assert len(inbox.messages) == 8
        assert desk.reason() is None
        clock[0] += 60
        await desk.due_again()
        await desk.until_states(*["new sent"] * 13)

    assert inbox.titles[8:] == [title for title in inbox.titles[8:] if title.endswith("more, FleetAgent prod/porep")]
    assert len(inbox.messages) == 9


async def test_what_a_dead_process_had_claimed_is_sent_by_the_next_once_the_claim_has_ended(
    one: Process, two: Process, inbox: Inbox
) -> None:
    async with telling(two, inbox.url, wants=False) as idle:
        await idle.until(lambda: True, "it begins")
    await one.runs.raise_alert((await one.agent()).id, 0, "OverBudget", "warning", "look")
    claimed = await PostgresOutbox(one.database, cluster="test").claim(KEY)
    assert claimed is not None

    async with telling(two, inbox.url) as desk:
        await desk.until(lambda: desk.notices.standing(KEY) is not None, "it has looked at the Secret")
        assert inbox.asked == 0
        await desk.change("UPDATE notifications SET claimed_until = now() - interval '1 second'")
        await desk.until_states("new sent")
        with pytest.raises(Exception, match="another process sends"):
            await PostgresOutbox(one.database, cluster="test").sent(claimed, [n.id for n in claimed.notices])

    assert len(inbox.messages) == 1


async def test_what_a_receiver_took_before_its_process_died_does_not_come_twice(
    one: Process, inbox: Inbox, broken: Inbox
) -> None:
    broken.behaviour = "take"
    await one.runs.raise_alert((await one.agent()).id, 0, "OverBudget", "warning", "look")
    dead = PostgresOutbox(one.database, cluster="test")
    claimed = await dead.claim(KEY)
    assert claimed is not None
    await dead.taken(claimed, [n.id for n in claimed.notices], Receiver(1, inbox.url).mark)

    async with telling(one, inbox.url, broken.url) as desk:
        await desk.change("UPDATE notifications SET claimed_until = now() - interval '1 second'")
        await desk.until_states("new sent")

    assert (inbox.asked, len(broken.messages)) == (0, 1)


async def test_two_processes_that_both_keep_the_agent_send_each_alert_once(
    one: Process, two: Process, inbox: Inbox
) -> None:
    async with telling(one, inbox.url) as desk, telling(two, inbox.url):
        for letter in "abcdefg":
            await desk.raise_alert(f"Code{letter}")
        await desk.until_states(*["new sent"] * 7)

    ids = [row["id"] for row in await one.rows("SELECT id FROM alerts")]
    more = sum(int(title.split(" and ")[1].split()[0]) for title in inbox.titles if " and " in title)
    assert len(inbox.messages) + more == len(ids) == 7


async def test_a_receiver_that_hangs_delays_no_other_agent(one: Process, inbox: Inbox, broken: Inbox) -> None:
    broken.behaviour = "hang"
    other = await one.agents.meet(OTHER, "uid-2", floor=0, handled={})
    async with telling(one, broken.url, keys=[KEY, OTHER], patience_s=60) as desk:
        await desk.raise_alert("OverBudget")
        await desk.until(lambda: broken.asked == 1, "it hangs")
        desk.cluster.text = inbox.url
        began = time.monotonic()
        await one.runs.raise_alert(other.id, 0, "OverBudget", "warning", "look")
        await desk.until(lambda: inbox.messages, "the other agent's alert is there")
        assert time.monotonic() - began < 20  # the other one would have hung for longer
        broken.over.set()

    assert "prod/snap" in inbox.titles[0]


async def test_what_was_tried_for_hours_is_given_up_with_an_event_and_stays_said(one: Process, broken: Inbox) -> None:
    async with telling(one, broken.url) as desk:
        alert = await desk.raise_alert("OverBudget")
        await desk.until(lambda: desk.reason() == "ReceiverFailed", "it has failed")
        await desk.change("UPDATE notifications SET at = now() - interval '4 hours', next_try_at = now()")
        await desk.until_states("new given_up")
        await desk.until(lambda: desk.reason() == "GivenUp", "it is said")

    (event,) = [message for reason, message in desk.cluster.events if reason == "AlertNotDelivered"]
    assert event.startswith(f"alert-{alert} (new) did not reach every receiver for hours")
    assert "127.0.0.1" not in event


async def test_a_secret_is_looked_at_before_it_is_needed_and_read_again_for_each_delivery(
    one: Process, inbox: Inbox, broken: Inbox
) -> None:
    async with telling(one) as desk:
        await desk.until(lambda: desk.reason() == "SecretMissing", "it is said before the first alert")
        desk.cluster.text = broken.url
        broken.behaviour = "take"
        await desk.raise_alert("OverBudget")
        await desk.until(lambda: broken.messages, "the Secret that was made is used")
        desk.cluster.text = inbox.url
        await desk.raise_alert("CreditLow")
        await desk.until(lambda: inbox.messages, "the Secret that was replaced is used")

    assert (len(broken.messages), len(inbox.messages)) == (1, 1)


async def test_what_nobody_wants_to_hear_is_not_sent_later(one: Process, inbox: Inbox) -> None:
    async with telling(one, inbox.url, wants=False) as desk:
        await desk.raise_alert("OverBudget")
        await desk.until_states("new not_wanted")
        desk.wants = True
        await desk.until(lambda: desk.notices.standing(KEY) is not None, "it is seen that somebody wants to hear")
        await one.runs.resolve_alerts((await one.agent()).id, "OverBudget")
        await desk.until_states("new not_wanted", "resolved sent")

    assert len(inbox.messages) == 1


async def test_nothing_is_told_of_a_resource_that_is_gone(one: Process) -> None:
    await one.runs.raise_alert((await one.agent()).id, 0, "OverBudget", "warning", "look")
    await one.agents.forget(await one.lease(), "uid-1")

    assert [row["state"] for row in await one.rows("SELECT state FROM notifications")] == ["not_wanted"]
    assert await PostgresOutbox(one.database, cluster="test").due() == frozenset()


async def test_what_is_under_way_when_the_process_ends_is_marked_off(one: Process, inbox: Inbox) -> None:
    async with telling(one, inbox.url) as desk:
        await desk.raise_alert("OverBudget")
        await desk.until(lambda: inbox.asked, "it is under way")

    (row,) = await one.rows("SELECT state, claimed_by FROM notifications")
    assert row == {"state": "sent", "claimed_by": None}
