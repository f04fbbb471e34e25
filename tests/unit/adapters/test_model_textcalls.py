import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.adapters.model.parse import is_empty
from fleetagent.adapters.model.textcalls import with_calls_from_text
from fleetagent.domain.model import CallsFrom, RawCall, Reply, Usage

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


def test_a_mark_that_was_only_named_does_not_hide_a_call() -> None:
    assert found(f'It begins with "<tool_call>":\n{HERMES}') == WANTED


def test_words_before_a_call_stay_words() -> None:
    taken = with_calls_from_text(reply(f"I launch now.\n{HERMES}"), (LAUNCH,))

    assert taken.text == "I launch now."


def test_several_blocks_are_taken_in_order() -> None:
    fleet = '<tool_call>{"name": "get_fleet", "arguments": {}}</tool_call>'

    assert [name for name, _ in found(f"{fleet}\n{QWEN}\n{fleet}")] == ["get_fleet", "launch_instance", "get_fleet"]


def test_where_calls_were_found_is_said_and_their_text_is_kept() -> None:
    in_text = with_calls_from_text(reply(f"I launch now.\n{HERMES}"), (LAUNCH,))
    in_thoughts = with_calls_from_text(reply("", f"I should launch.\n{QWEN}"), (LAUNCH,))

    assert (in_text.calls_from, in_thoughts.calls_from) == (CallsFrom.TEXT, CallsFrom.REASONING)
    assert in_text.calls[0].written == HERMES
    assert in_thoughts.calls[0].written == QWEN
    assert in_thoughts.text == ""


def test_a_call_inside_the_reasoning_is_taken_when_there_are_no_words() -> None:
    assert found("", f"I should launch.\n{HERMES}") == WANTED
    assert found("hold", f"I should launch.\n{HERMES}") == []


@pytest.mark.parametrize(
    "text",
    [
        HERMES.replace('"count": 2', '"count": "2"'),
        HERMES.replace('"count": 2', '"count": "2.0"'),
        HERMES.replace('"offer_id": "11"', '"offer_id": 11'),
        HERMES.replace('"arguments"', '"parameters"'),
        HERMES.replace('{"offer_id": "11", "count": 2}', json.dumps('{"offer_id": "11", "count": 2}')),
        QWEN.replace("\n2\n", "\n 2.0\n"),
        HERMES.replace('"count": 2', '"count": 2, "dry": null'),
    ],
    ids=["number as text", "2.0 for 2", "id as number", "parameters", "encoded twice", "2.0 in XML", "null"],
)
def test_types_are_read_by_the_same_rule_as_in_calls(text: str) -> None:
    assert found(text)[0][1] | {"dry": None} == {"offer_id": "11", "count": 2, "dry": None}


def test_a_text_that_holds_the_end_of_a_block_in_a_string_is_read_whole() -> None:
    stated = {"name": "launch_instance", "arguments": {"offer_id": "</tool_call>}"}}

    assert found(f"<tool_call>{json.dumps(stated)}</tool_call>") == [("launch_instance", {"offer_id": "</tool_call>}"})]


NO_CALLS = {
    "unknown tool": (HERMES.replace("launch_instance", "destroy_everything"), "no tool named 'destroy_everything'"),
    "missing argument": (HERMES.replace('"offer_id": "11", ', ""), "offer_id is missing"),
    "unknown argument": (HERMES.replace('"count": 2', '"price": 2'), "no argument price"),
    "wrong type": (HERMES.replace('"count": 2', '"count": "two"'), "count must be a whole number, not 'two'"),
    "fraction": (HERMES.replace('"count": 2', '"count": 2.7'), "count must be a whole number"),
    "boolean as number": (HERMES.replace('"count": 2', '"count": true'), "count must be a whole number"),
    "broken JSON": (HERMES.replace('"count": 2', '"count": '), "JSON can't be read"),
    "no number": (HERMES.replace('"count": 2', '"count": NaN'), "NaN"),
    "no object": (HERMES.replace('{"offer_id": "11", "count": 2}', '["11"]'), "not a JSON object"),
    "no name": (HERMES.replace('"name"', '"tool"'), "names no tool"),
    "too deep": (HERMES.replace("2}", "[" * 50 + "]" * 50 + "}"), "nested too deeply"),
    "cut off": (HERMES.removesuffix("</tool_call>"), "</tool_call> is missing"),
    "not at the end": (f"{HERMES} is what I would do", "words follow it"),
    "one of two is wrong": (f"{HERMES}\n{HERMES.replace('launch_instance', 'unknown')}", "no tool named 'unknown'"),
    "no number in XML": (QWEN.replace("\n2\n", "\ntwo\n"), "count must be a whole number"),
    "twice the same": (QWEN.replace("<parameter=count>", "<parameter=offer_id>"), "one parameter twice"),
    "stray text": (QWEN.replace("</function>", "stray</function>"), "text between its parameters"),
    "XML without an end": (QWEN.removesuffix("</function>"), "not whole"),
    "an end alone": ("Hold.\n</tool_call>", "an end and no beginning"),
    "another syntax": ("<tool_call>get_fleet\n<arg_key>a</arg_key></tool_call>", "not whole"),
    "in a fence at the end": (f"I launch:\n```xml\n{HERMES}\n```", "code block"),
    "in a fence that is all": (f"```\n{QWEN}\n```", "code block"),
    "in a fence without an end": (f"I launch:\n```\n{HERMES}", "code block"),
    "plain JSON": ('{"name": "get_fleet", "arguments": {}}', "plain JSON"),
    "plain JSON in a fence": ('Look:\n```json\n{"name": "get_fleet", "parameters": {}}\n```', "plain JSON"),
    "far too long": (HERMES.replace("11", "1" * 30_000), "too long"),
}


@pytest.mark.parametrize(("text", "because"), NO_CALLS.values(), ids=NO_CALLS)
def test_what_is_not_wholly_a_call_is_none_and_no_answer_either(text: str, because: str) -> None:
    before = reply(text)
    after = with_calls_from_text(before, (LAUNCH, FLEET))

    assert after == replace(before, unread=after.unread)
    assert because in str(after.unread)


@pytest.mark.parametrize(
    "text",
    [
        "words only, </b>",
        "a < b",
        f"One would write `{HERMES.replace(chr(10), '')}`, but the fleet is on target.",
        f'I would say "{HERMES}", but the fleet is on target.',
        f'I would say "<tool_call>{QWEN}</tool_call>".',
        'A call begins with "<tool_call>" and ends with "</tool_call>".',
        f"An example:\n```xml\n{HERMES}\n```\nBut the fleet is on target.",
        'Held.\n{"action": false, "state_changed": false}',
        'The plan was {"name": "get_fleet", "arguments": {}} and it held.',
        '{"name": "porep", "arguments": {}}',
        '{"name": ["get_fleet"], "arguments": {}}',
        '{"name": "get_fleet"}',
        "{",
    ],
    ids=lambda text: text[:30],
)
def test_an_explanation_of_a_call_is_an_answer_like_any_other(text: str) -> None:
    before = reply(text)

    assert with_calls_from_text(before, (LAUNCH, FLEET)) == before


def test_a_broken_call_inside_the_reasoning_is_no_empty_answer() -> None:
    after = with_calls_from_text(reply("", HERMES.removesuffix("</tool_call>")), (LAUNCH,))

    assert after.calls == ()
    assert not is_empty(after)


def test_a_cut_off_reply_and_a_reply_with_calls_are_left_alone() -> None:
    cut = reply(HERMES, cut_off=True)
    calling = Reply(HERMES, (RawCall("get_fleet", "{}"),), cut_off=False, usage=Usage(), finish_reason="tool_calls")

    assert with_calls_from_text(cut, (LAUNCH,)) is cut
    assert with_calls_from_text(calling, (LAUNCH,)) is calling


MARKS = [
    "<tool_call>",
    "</tool_call>",
    "<function=get_fleet>",
    "</function>",
    "{",
    "}",
    "```",
    "`",
    '"',
    "\n",
    " ",
    "a",
]


@given(st.lists(st.sampled_from([*MARKS, HERMES, QWEN]), max_size=8).map("".join))
def test_whatever_a_text_holds_only_whole_calls_of_offered_tools_come_of_it(text: str) -> None:
    after = with_calls_from_text(reply(text), (LAUNCH, FLEET))

    assert all(c.name in {"launch_instance", "get_fleet"} and c.written in text for c in after.calls)
    assert after.unread is None or after.calls == ()


@pytest.mark.parametrize(
    "mark", ["<tool_call>", "<function=a>", "<parameter=a>", "{", "`", "```", "\n{", '"</tool_call>']
)
def test_a_model_that_repeats_a_mark_without_end_is_read_at_once(mark: str) -> None:
    assert with_calls_from_text(reply(mark * 300_000 + "</tool_call>"), (LAUNCH,)).calls == ()
    within = f"<function=launch_instance>{mark * 1_200}</function>"
    assert with_calls_from_text(reply(within), (LAUNCH,)).calls == ()
