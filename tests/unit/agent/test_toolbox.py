"""Whatever a model sends as a call gets an answer, and only what is valid is done."""

import json
from typing import Any

import pytest

from fleetagent.agent.desk import Desk
from fleetagent.agent.toolbox import Toolbox
from fleetagent.agent.tools import TOOLS, Arguments, Tool
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


@pytest.mark.parametrize(
    ("minutes", "at"),
    [("5", "12:05"), ("15.0", "12:15"), (15.5, "12:15"), ("1e2", "13:40"), (15, "12:15"), (" 15 ", "12:15")],
)
async def test_numbers_as_texts_are_understood(minutes: Any, at: str) -> None:
    said = (await answers(("schedule_next_check", {"minutes": minutes, "reason": "x"})))[0]

    assert (said["ok"], said["at"][-9:-4]) == (True, at)


@pytest.mark.parametrize(
    ("minutes", "because"),
    [
        ("five", "minutes must be a number, not 'five'"),
        ("0.35 $/hr", "minutes must be a number, not '0.35 $/hr'"),
        (True, "minutes must be a number, not 'True'"),
        ("False", "minutes must be a number, not 'False'"),
        (None, "minutes is missing"),
        ("null", "minutes must be a number, not 'null'"),
        ("1e308", "less than or equal to 100000"),
        (1e308, "less than or equal to 100000"),
        ("-1", "greater than or equal to 0"),
        ("NaN", "minutes must be a number"),
        ([5], "minutes must be a number, not '(5)'"),
    ],
)
async def test_what_is_no_number_is_one_clear_error_and_limits_hold_after_reading(minutes: Any, because: str) -> None:
    said = (await answers(("schedule_next_check", {"minutes": minutes, "reason": "x"})))[0]

    assert said["ok"] is False
    assert because in said["error"]
    assert said["error"].endswith("nothing was done")


@pytest.mark.parametrize(
    ("check_id", "known"), [("2.0", True), ("7", True), (2.7, False), ("2.7", False), ("1e400", False)]
)
async def test_a_whole_number_is_one_however_it_is_spelled(check_id: Any, known: bool) -> None:  # noqa: FBT001
    said = (await answers(("cancel_check", {"id": check_id})))[0]

    assert ("because" in said) is known
    assert ("id must be a whole number" in said.get("error", "")) is not known


async def test_arguments_wrapped_or_encoded_once_more_are_understood() -> None:
    said = await answers(
        ("schedule_next_check", {"arguments": {"minutes": 7, "reason": "y"}}),
        ("schedule_next_check", {"parameters": '{"minutes": 8, "reason": "y"}'}),
        ("schedule_next_check", json.dumps('{"minutes": "9", "reason": "y"}')),
    )

    assert [s["ok"] for s in said] == [True, True, True]


async def test_what_acts_refuses_unknown_arguments_and_what_looks_ignores_them() -> None:
    stop, launch, look = await answers(
        ("stop_instance", {"instance_id": "1", "dry_run": True}),
        ("launch_instance", {"offer_id": "1", "count": 3, "max_price": 1}),
        ("get_demand", {"reason": "to know"}),
    )

    assert "there is no argument dry_run; it takes instance_id, reason" in stop["error"]
    assert "there is no argument count, max_price" in launch["error"]
    assert look["active"] is True


async def test_an_id_that_came_as_a_number_is_an_id_and_a_null_reason_is_none() -> None:
    said = (await answers(("launch_instance", {"offer_id": 12345678.0, "reason": None})))[0]

    assert said["refused"]["code"]  # it came as far as the guardrails


class Tagged(Arguments):
    """What no tool of ours has: a list."""

    tags: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("tags", "read"), [([1, 2], (1, 2)), ("[1, 2]", (1, 2)), (["1"], None), ([True], None), ("1, 2", None)], ids=repr
)
def test_a_list_may_come_as_text_and_what_is_in_it_is_read_exactly(tags: Any, read: tuple[int, ...] | None) -> None:
    async def nothing(_: Desk, __: Arguments, ___: str) -> dict[str, Any]:
        return {}

    tool = Tool("tag", "", Tagged, nothing)
    if read is None:
        with pytest.raises(ValueError, match=r"^tags"):
            tool.read({"tags": tags})
    else:
        assert tool.read({"tags": tags}) == Tagged(tags=read)


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
