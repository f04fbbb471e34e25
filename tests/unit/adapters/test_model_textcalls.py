import json
from typing import Any

import pytest

from fleetagent.adapters.model.textcalls import with_calls_from_text
from fleetagent.domain.model import RawCall, Reply, Usage

LAUNCH = {
    "type": "function",
    "function": {
        "name": "launch_instance",
        "parameters": {
            "type": "object",
            "properties": {
                "offer_id": {"type": "string"},
                "count": {"type": "integer"},
                "dry": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            },
            "required": ["offer_id"],
        },
    },
}
FLEET = {"type": "function", "function": {"name": "get_fleet", "parameters": {"type": "object", "properties": {}}}}
HERMES = '<tool_call>\n{"name": "launch_instance", "arguments": {"offer_id": "11", "count": 2}}\n</tool_call>'
QWEN = """<function=launch_instance>
<parameter=offer_id>
11
</parameter>
<parameter=count>
2
</parameter>
</function>"""


def reply(text: str = "", reasoning: str = "", *, cut_off: bool = False) -> Reply:
    return Reply(text=text, calls=(), cut_off=cut_off, usage=Usage(), finish_reason="stop", reasoning=reasoning)


def found(text: str, reasoning: str = "") -> list[tuple[str, Any]]:
    calls = with_calls_from_text(reply(text, reasoning), (LAUNCH, FLEET)).calls
    return [(call.name, json.loads(call.arguments)) for call in calls]


WANTED = [("launch_instance", {"offer_id": "11", "count": 2})]


@pytest.mark.parametrize(
    "text",
    [
        HERMES,
        HERMES.removeprefix("<tool_call>"),
        QWEN,
        f"<tool_call>\n{QWEN}\n</tool_call>",
        f"{QWEN}\n</tool_call>",
        f"I launch now.\n\n{HERMES}\n",
    ],
    ids=["hermes", "hermes without opener", "qwen", "qwen in a block", "qwen without opener", "after words"],
)
def test_a_call_written_as_text_is_taken(text: str) -> None:
    assert found(text) == WANTED


def test_words_before_a_call_stay_words() -> None:
    taken = with_calls_from_text(reply(f"I launch now.\n{HERMES}"), (LAUNCH,))

    assert taken.text == "I launch now."


def test_several_blocks_are_taken_in_order() -> None:
    fleet = '<tool_call>{"name": "get_fleet", "arguments": {}}</tool_call>'

    assert [name for name, _ in found(f"{fleet}\n{QWEN}\n{fleet}")] == ["get_fleet", "launch_instance", "get_fleet"]


def test_a_call_inside_the_reasoning_is_taken_when_there_are_no_words() -> None:
    assert found("", f"I should launch.\n{HERMES}") == WANTED
    assert found("hold", f"I should launch.\n{HERMES}") == []


@pytest.mark.parametrize(
    "text",
    [
        HERMES.replace("launch_instance", "destroy_everything"),
        HERMES.replace("offer_id", "offer"),
        HERMES.replace('"count": 2', '"count": "2"'),
        HERMES.replace('"count": 2', '"count": true'),
        HERMES.replace('"count": 2', '"price": 2'),
        HERMES.replace('"count": 2', '"count": '),
        HERMES.replace('{"offer_id": "11", "count": 2}', '["11"]'),
        HERMES.removesuffix("</tool_call>"),
        f"{HERMES} is what I would do",
        f"{HERMES}\n{HERMES.replace('launch_instance', 'unknown')}",
        QWEN.replace("\n2\n", "\ntwo\n"),
        QWEN.replace("<parameter=count>", "<parameter=offer_id>"),
        QWEN.replace("</function>", "stray</function>"),
        "words only, </b>",
    ],
    ids=[
        "unknown tool",
        "missing argument",
        "wrong type",
        "boolean as number",
        "unknown argument",
        "broken JSON",
        "no object",
        "cut off",
        "not at the end",
        "one of two is wrong",
        "no number",
        "twice the same",
        "stray text",
        "no call",
    ],
)
def test_what_is_not_wholly_a_call_stays_text(text: str) -> None:
    before = reply(text)

    assert with_calls_from_text(before, (LAUNCH, FLEET)) == before


def test_a_cut_off_reply_and_a_reply_with_calls_are_left_alone() -> None:
    cut = reply(HERMES, cut_off=True)
    calling = Reply(HERMES, (RawCall("get_fleet", "{}"),), cut_off=False, usage=Usage(), finish_reason="tool_calls")

    assert with_calls_from_text(cut, (LAUNCH,)) is cut
    assert with_calls_from_text(calling, (LAUNCH,)) is calling
