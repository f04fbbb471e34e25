"""Whatever a model sends as a call gets an answer, and only what is valid is done."""

import json
from typing import Any

import pytest

from fleetagent.agent.desk import Desk
from fleetagent.agent.toolbox import Toolbox
from fleetagent.agent.tools import TOOLS
from fleetagent.domain.records import Outcome
from fleetagent.errors import Denied, Unclear
from support.fakes import StrictModel, calls, says
from support.rehearsal import Rehearsal, a_tool


async def answers(*asked: Any) -> list[dict[str, Any]]:
    """What the tools answer to these calls, made at once; the run then ends well."""
    model = StrictModel(calls(*asked), says())
    on = Rehearsal(model)
    assert (await on.run()).outcome in {Outcome.HELD, Outcome.REFUSED}
    return [json.loads(text) for text in model.texts()[-len(asked) :]]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"offer_id": 12',
        "[]",
        '"x"',
        '{"offer_id":NaN}',
        '{"offer_id":"1","offer_id":"2"}',
        '{"offer_id":"' + "1" * 1_000_000 + '"}',
        '{"offer_id":{}}',
        '{"offer_id":""}',
        "{}",
        "",
    ],
)
async def test_broken_arguments_launch_nothing_and_the_model_is_told_why(arguments: str) -> None:
    said = (await answers(("launch_instance", arguments)))[0]

    assert said["ok"] is False
    assert "arguments" in said["error"] or "offer_id" in said["error"]


@pytest.mark.parametrize("name", ["launch", "functions.get_fleet", "", "get_fleet; rm", "x" * 200])
async def test_an_unknown_tool_is_answered_with_the_names_of_those_there_are(name: str) -> None:
    said = (await answers((name, "{}")))[0]

    assert said["ok"] is False
    assert "get_fleet, get_demand" in said["error"]


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("schedule_next_check", {"minutes": -1, "reason": "x"}, "minutes"),
        ("schedule_next_check", {"minutes": 10**9, "reason": "x"}, "minutes"),
        ("schedule_next_check", {"minutes": 5}, "reason"),
        ("cancel_check", {"id": 10**25}, "id"),
        ("cancel_check", {"id": "one"}, "id"),
        ("raise_alert", {"severity": "panic", "message": "x"}, "severity"),
    ],
)
async def test_a_wrong_argument_is_named(name: str, arguments: dict[str, Any], field: str) -> None:
    said = (await answers((name, arguments)))[0]

    assert said["ok"] is False
    assert field in said["error"]
    assert "nothing was done" in said["error"]


async def test_numbers_as_texts_and_arguments_wrapped_once_more_are_understood() -> None:
    said = await answers(
        ("schedule_next_check", {"minutes": "5", "reason": "x"}),
        ("schedule_next_check", {"arguments": {"minutes": 7, "reason": "y"}}),
    )

    assert [s["ok"] for s in said] == [True, True]


async def test_an_effect_that_is_not_clear_is_said_to_be_so() -> None:
    async def doubtful(_: Desk) -> dict[str, Any]:
        raise Unclear("the connection broke after sending")

    async def denied(_: Desk) -> dict[str, Any]:
        raise Denied("OfferGone", "no such offer")

    model = StrictModel(calls("doubtful", "denied"), says())
    await Rehearsal(model, (a_tool("doubtful", doubtful), a_tool("denied", denied))).run()

    assert "not clear whether it happened" in model.texts()[-2]
    assert "denied is not possible now: no such offer" in model.texts()[-1]


def test_the_schemas_are_the_same_bytes_each_time() -> None:
    one, two = (json.dumps(Toolbox(TOOLS).schemas) for _ in range(2))

    assert one == two
    assert [s["function"]["name"] for s in json.loads(one)] == [t.name for t in TOOLS]
