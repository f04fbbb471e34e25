"""What each look at the ledger tells of open alerts and of actions that wait for somebody."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.tables import actions
from fleetagent.domain.records import Pulse
from support.stores import NOON, Process


async def test_the_newest_open_alerts_come_with_their_words_and_all_are_counted(one: Process) -> None:
    agent = await one.agent()
    assert (await one.ledger.pulse(agent.id, 0, NOON)).alerts == ()
    for n in range(7):
        await one.runs.raise_alert(agent.id, 1, "Model", "warning", f"host {n} fails")
    await one.runs.acknowledge(agent.id, 7, "known", "alert-7: known")

    pulse = await one.ledger.pulse(agent.id, 0, NOON)

    assert pulse.open_alerts == 6
    assert [(a.severity, a.message) for a in pulse.alerts] == [("warning", f"host {n} fails") for n in (5, 4, 3, 2, 1)]


async def waits(one: Process, **changes: Any) -> Pulse:
    """One action that waits for approval until a quarter past; what the pulse tells then, at five past."""
    run = await one.start()
    usual = {
        "agent_id": run.agent_id,
        "run_id": run.run_id,
        "intent_key": f"{run.run_id}",
        "kind": "launch",
        "by": "model",
        "args": {"reason": "because"},
        "state": "waiting",
        "wish": {"what": "1x RTX 5090", "proofs_per_hour": 95.0, "offer": None},
        "usd_per_hour": Decimal("0.60"),
        "created_at": NOON,
        "expires_at": NOON + timedelta(minutes=15),
    }
    async with one.database.transaction() as connection:
        await connection.execute(sa.insert(actions).values({**usual, **changes}))
    return await one.ledger.pulse(run.agent_id, run.run_id, NOON + timedelta(minutes=5))


async def test_an_action_that_waits_for_approval_is_told_and_counted_until_it_can_wait_no_longer(one: Process) -> None:
    pulse = await waits(one)
    assert [(w.what, w.reason, w.approved) for w in pulse.waiting] == [("1x RTX 5090", "because", False)]
    assert (pulse.launches_this_run, pulse.launches_last_hour, pulse.stops_this_run) == (1, 1, 0)

    pulse = await waits(one, kind="stop")
    assert [w.kind for w in pulse.waiting] == ["launch", "stop"]
    assert (pulse.launches_this_run, pulse.launches_last_hour, pulse.stops_this_run) == (0, 1, 1)

    pulse = await waits(one, expires_at=NOON + timedelta(minutes=5))
    assert len(pulse.waiting) == 2
    assert pulse.launches_last_hour == 1


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"state": "rejected"}, "was rejected by a person: do not ask for the same again"),
        ({"state": "expired"}, "has expired: nobody approved it in time"),
        ({"state": "expired", "approved_at": NOON}, "has expired: it was approved, but no run took it up in time"),
        ({"state": "done", "provider_ref": "9001"}, "was approved and done: 9001"),
        ({"state": "failed"}, "was approved, and failed"),
        ({"state": "unknown"}, "was approved; not clear yet whether it happened"),
        (
            {"state": "refused", "refusal": {"code": "OfferGone", "sentence": "offer 7001 is gone"}},
            "was approved, but refused (OfferGone): offer 7001 is gone",
        ),
    ],
    ids=lambda value: value["state"] if isinstance(value, dict) else "",
)
async def test_what_became_of_a_wait_is_told_until_a_run_has_told_it(
    one: Process, row: dict[str, Any], words: str
) -> None:
    pulse = await waits(one, **row)

    (decided,) = pulse.decided
    assert decided.words == f"action-1 (launch 1x RTX 5090 for 0.600 USD/h) {words}"

    run = await one.start()
    await one.conclude(run, told=(decided.action_id,))
    assert (await one.ledger.pulse(run.agent_id, 0, NOON)).decided == ()


async def test_an_action_that_never_waited_is_no_news(one: Process) -> None:
    pulse = await waits(one, state="refused", expires_at=None, refusal={"code": "OnTarget", "sentence": "hold"})

    assert (pulse.waiting, pulse.decided) == ((), ())
