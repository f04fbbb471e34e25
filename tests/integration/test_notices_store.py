"""What is written down to be told of an alert: each thing once, and again only where it is news."""

from typing import Any

import pytest

from fleetagent.adapters.postgres.notices import STILL_OPEN, PostgresOutbox
from fleetagent.domain.schedule import Trigger
from support.stores import KEY, Process

TOLD_LONG_AGO = "UPDATE notifications SET at = at - interval '{0}', done_at = at - interval '{0}', state = 'sent'"


async def told(process: Process) -> list[tuple[str, str, str | None]]:
    rows = await process.rows("SELECT kind, severity, remark FROM notifications ORDER BY id")
    return [(row["kind"], row["severity"], row["remark"]) for row in rows]


async def raised(process: Process, message: str, severity: str = "warning", code: str = "FleetUnknown") -> Any:
    return await process.runs.raise_alert((await process.agent()).id, 0, code, severity, message)


async def pass_time(process: Process, span: str) -> None:
    await process.rows(f"{TOLD_LONG_AGO.format(span)} RETURNING 1")


async def test_an_alert_that_comes_back_is_told_anew(one: Process) -> None:
    for _ in range(2):
        await raised(one, "the list failed")
        await raised(one, "the list failed")
        await one.runs.resolve_alerts((await one.agent()).id, "FleetUnknown")

    assert [kind for kind, _, _ in await told(one)] == ["new", "resolved", "new", "resolved"]


async def test_other_words_are_told_once_an_hour_and_other_figures_never(one: Process) -> None:
    await raised(one, "the list failed: 500")
    await raised(one, "the key is refused")
    assert len(await told(one)) == 1
    await pass_time(one, "61 minutes")

    await raised(one, "the key is refused: 401")
    await raised(one, "the key is refused: 403")
    await raised(one, "no connection")

    assert (await told(one))[1:] == [("escalated", "warning", "it says more than before")]


@pytest.mark.parametrize("code", ["FleetUnknown", "Model"])
async def test_a_raised_severity_is_told_at_once_and_a_lower_one_is_none(one: Process, code: str) -> None:
    await raised(one, "look", "info", code)
    await raised(one, "look", "critical", code)
    await raised(one, "look", "warning", code)

    assert await told(one) == [
        ("new", "info", None),
        ("escalated", "critical", "severity raised from info to critical"),
    ]
    assert [row["severity"] for row in await one.rows("SELECT severity FROM alerts")] == ["critical"]


async def test_other_words_of_what_somebody_has_acknowledged_are_not_told(one: Process) -> None:
    alert = await raised(one, "the list failed")
    await one.runs.acknowledge((await one.agent()).id, alert, "", "acknowledge:1")
    await pass_time(one, "2 hours")

    await raised(one, "the key is refused")

    assert [kind for kind, _, _ in await told(one)] == ["new", "acknowledged"]


async def test_what_nobody_acknowledges_is_told_again_after_an_hour_and_then_each_day(one: Process) -> None:
    outbox = PostgresOutbox(one.database, cluster="test")
    await raised(one, "the list failed")
    for span, count in (("59 minutes", 1), ("2 minutes", 2), ("23 hours", 2), ("2 hours", 3)):
        await pass_time(one, span)
        await outbox.remind()
        await outbox.remind()
        assert len(await told(one)) == count, span

    assert (await told(one))[1:] == [("escalated", "warning", STILL_OPEN)] * 2


@pytest.mark.parametrize(
    "state", ["waiting", "not_wanted", "acknowledged", "resolved", "info", "another cluster", "deleted"]
)
async def test_nobody_is_reminded_of_what_is_known_over_slight_or_was_never_told(one: Process, state: str) -> None:
    alert = await raised(one, "the list failed", "info" if state == "info" else "warning")
    agent_id = (await one.agent()).id
    match state:
        case "acknowledged":
            await one.runs.acknowledge(agent_id, alert, "", "acknowledge:1")
        case "resolved":
            await one.runs.resolve_alerts(agent_id, "FleetUnknown")
    await pass_time(one, "30 hours")
    if state in {"waiting", "not_wanted"}:
        await one.rows(f"UPDATE notifications SET state = '{state}' RETURNING 1")  # noqa: S608 - of this file
    if state == "deleted":
        await one.rows("UPDATE agents SET deleted_at = now() RETURNING 1")
    before = len(await told(one))

    await PostgresOutbox(one.database, cluster="other" if state == "another cluster" else "test").remind()

    assert len(await told(one)) == before


async def test_a_trigger_that_is_given_up_is_told_outside_too(one: Process) -> None:
    agent = await one.agent()
    await one.runs.persist(agent.id, Trigger.REQUEST, "poison")
    for _ in range(4):
        await one.runs.interrupt(await one.start(), "killed")

    assert [row["code"] for row in await one.rows("SELECT code FROM alerts")] == ["TriggerGivenUp"]
    assert [kind for kind, _, _ in await told(one)] == ["new"]


async def test_what_one_process_has_claimed_nobody_else_gets(one: Process, two: Process) -> None:
    await raised(one, "the list failed")
    first, second = (PostgresOutbox(p.database, cluster="test") for p in (one, two))
    claim = await first.claim(KEY)

    await raised(one, "look", code="CreditLow")

    assert claim is not None
    assert await second.claim(KEY) is None
    assert await second.waiting(KEY) == 2
    await first.sent(claim, [notice.id for notice in claim.notices])
    rest = await second.claim(KEY)
    assert rest is not None
    assert [notice.code for notice in rest.notices] == ["CreditLow"]


async def test_what_is_told_goes_with_its_alert(one: Process) -> None:
    await raised(one, "the list failed")

    await one.rows("DELETE FROM alerts RETURNING 1")

    assert await told(one) == []
