"""Each run is counted once, by what the database says that it came to."""

import asyncio
import logging
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleetagent.agent.desk import Desk
from fleetagent.agent.telling import told
from fleetagent.domain.schedule import Trigger
from support.fakes import StrictModel, calls, says
from support.rehearsal import Rehearsal, a_tool


def counted(on: Rehearsal) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["outcome"], sample.labels["trigger"]): sample.value
        for family in text_string_to_metric_families(on.metrics.text().decode())
        for sample in family.samples
        if sample.name == "fleetagent_runs_total"
    }


def goes_on(on: Rehearsal) -> bool:
    return b"fleetagent_run_started_timestamp_seconds{" in on.metrics.text()


async def test_a_run_is_shown_while_it_goes_on_and_counted_at_its_end() -> None:
    shown: list[bool] = []

    async def look(_: Desk) -> dict[str, Any]:
        shown.append(goes_on(on))
        return {}

    on = Rehearsal(StrictModel(calls("look"), says()), (a_tool("look", look),))
    await on.run(Trigger.REQUEST)

    assert shown == [True]
    assert not goes_on(on)
    assert counted(on) == {("Held", "Request"): 1}


async def test_a_run_that_is_cut_off_counts_as_interrupted() -> None:
    begun = asyncio.Event()

    async def wait(_: Desk) -> dict[str, Any]:
        begun.set()
        await asyncio.Event().wait()
        return {}

    on = Rehearsal(StrictModel(calls("wait")), (a_tool("wait", wait),))
    task = asyncio.create_task(on.run())
    await begun.wait()
    task.cancel("suspended")
    with pytest.raises(asyncio.CancelledError):
        await task

    assert counted(on) == {("Interrupted", "Schedule"): 1}
    assert not goes_on(on)


async def test_whatever_is_logged_in_a_run_names_it(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[dict[str, Any]] = []

    async def look(_: Desk) -> dict[str, Any]:
        heard.append(dict(told()))
        return {}

    caplog.set_level(logging.INFO)
    on = Rehearsal(StrictModel(calls("look"), says()), (a_tool("look", look),))
    await on.run(Trigger.WAKE)

    assert heard == [{"run": 1, "trigger": "Wake"}]
    assert told() == {}, "and nothing afterwards does"
    assert [vars(r)["outcome"] for r in caplog.records if "outcome" in vars(r)] == ["Held"]
