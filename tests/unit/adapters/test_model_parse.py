from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.adapters.model.parse import is_empty, reply_in
from fleetagent.domain.model import RawCall, Reply, Usage


def completion(message: Any, finish_reason: Any = "stop", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}], **fields}


def parsed(message: Any, finish_reason: Any = "stop", **fields: Any) -> Reply:
    reply = reply_in(completion(message, finish_reason, **fields))
    assert reply is not None
    return reply


def call(name: Any = "get_fleet", arguments: Any = "{}", **fields: Any) -> dict[str, Any]:
    return {"id": "x", "type": "function", "function": {"name": name, "arguments": arguments}, **fields}


@pytest.mark.parametrize(
    "body", [None, [], 5, "x", {}, {"choices": None}, {"choices": []}, {"choices": [None]}], ids=repr
)
def test_a_body_without_choices_is_no_reply(body: Any) -> None:
    assert reply_in(body) is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hold", "hold"),
        ("  hold\n", "hold"),
        (None, ""),
        (7, ""),
        ([{"type": "text", "text": "ho"}, {"type": "text", "text": "ld"}], "hold"),
        ([{"type": "text", "text": [{"type": "text", "text": "hold"}]}], "hold"),
        ([{"type": "text", "text": {"value": "hold"}}], "hold"),
        (["ho", "ld"], "hold"),
        ({"type": "text", "text": "hold"}, "hold"),
        ([{"type": "image_url", "image_url": {}}, {"type": "text", "text": "hold"}], "hold"),
        ("a\x00b\ud800c", "a\ufffdb\ufffdc"),
    ],
    ids=repr,
)
def test_content_of_any_form_becomes_plain_storable_text(content: Any, text: str) -> None:
    assert parsed({"content": content}).text == text


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ("<think>why</think>\n\nhold", "hold", "why"),
        ("in mid-thought</think>hold", "hold", "in mid-thought"),
        ("a</think>b</think>hold", "hold", "a\nb"),
        ("<think>never closed", "", "never closed"),
        ("hold <think>never closed", "hold", "never closed"),
        ("Plan: <think>x</think>hold", "Plan: hold", "x"),
        ("<think></think>hold", "hold", ""),
        ("<thinking>why</thinking>hold", "hold", "why"),
        ("<think>why</think>hold<|im_end|>", "hold", "why"),
        ("a < b, c > d", "a < b, c > d", ""),
    ],
)
def test_thoughts_that_leaked_into_the_content_are_no_words(content: str, text: str, reasoning: str) -> None:
    reply = parsed({"content": content})

    assert (reply.text, reply.reasoning) == (text, reasoning)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_is_found_under_each_of_its_names(field: str) -> None:
    assert parsed({"content": "hold", field: "why"}).reasoning == "why"


def test_two_reasoning_fields_are_never_joined() -> None:
    assert (
        parsed({"content": "hold", "reasoning_content": "", "reasoning": "why", "reasoning_text": "why"}).reasoning
        == "why"
    )


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "reasoning": "why", "tool_calls": []},
        {"content": "", "reasoning_content": "why", "tool_calls": None},
        {"content": "<think>why"},
        {"content": "why</think>\n"},
        {"reasoning_text": "why"},
        {"content": [{"type": "thinking", "thinking": "why"}]},
    ],
    ids=repr,
)
def test_reasoning_alone_is_an_empty_reply(message: Any) -> None:
    reply = parsed(message, "length")

    assert is_empty(reply)
    assert reply.reasoning == "why"


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ({"tool_calls": [call()]}, [RawCall("get_fleet", "{}")]),
        ({"tool_calls": [call(arguments="")]}, [RawCall("get_fleet", "")]),
        ({"tool_calls": [call(arguments=None)]}, [RawCall("get_fleet", "")]),
        ({"tool_calls": [call(arguments={"a": "é"})]}, [RawCall("get_fleet", '{"a": "é"}')]),
        ({"tool_calls": [call(arguments='{"a": ')]}, [RawCall("get_fleet", '{"a": ')]),
        ({"tool_calls": [call(arguments='{"a\x00": 1}')]}, [RawCall("get_fleet", '{"a\ufffd": 1}')]),
        ({"tool_calls": call()}, [RawCall("get_fleet", "{}")]),
        ({"tool_calls": [{"name": "get_fleet", "arguments": "{}"}]}, [RawCall("get_fleet", "{}")]),
        ({"tool_calls": [call(name=None), call(" stop ")]}, [RawCall("", "{}"), RawCall("stop", "{}")]),
        ({"tool_calls": ["get_fleet"]}, [RawCall("", "get_fleet")]),
        ({"tool_calls": [None, {}]}, []),
        ({"tool_calls": None, "function_call": {"name": "get_fleet", "arguments": "{}"}}, [RawCall("get_fleet", "{}")]),
        (
            {"tool_calls": [call()], "function_call": {"name": "get_fleet", "arguments": "{}"}},
            [RawCall("get_fleet", "{}")],
        ),
    ],
    ids=repr,
)
def test_calls_of_any_form_are_read_in_order_and_none_is_lost(message: Any, calls: list[RawCall]) -> None:
    assert list(parsed({"content": None, **message}).calls) == calls


@pytest.mark.parametrize(
    ("finish_reason", "cut_off"),
    [
        ("stop", False),
        ("tool_calls", False),
        ("function_call", False),
        ("end", False),
        (None, False),
        (5, False),
        ("length", True),
        ("MAX_TOKENS", True),
        ("content_filter", True),
        ("model_context_window_exceeded", True),
        ("abort", True),
    ],
)
def test_calls_count_whatever_the_finish_reason_unless_it_says_cut_off(finish_reason: Any, *, cut_off: bool) -> None:
    reply = parsed({"content": None, "tool_calls": [call()]}, finish_reason)

    assert (len(reply.calls), reply.cut_off) == (1, cut_off)


@pytest.mark.parametrize("finish_reasons", [("length", "tool_calls"), ("stop", "content_filter")])
def test_a_reply_of_which_any_choice_was_cut_off_is_cut_off(finish_reasons: tuple[str, str]) -> None:
    words, acts = ({"content": "launching"}, {"content": None, "tool_calls": [call()]})
    choices = [{"message": m, "finish_reason": r} for m, r in zip((words, acts), finish_reasons, strict=True)]

    reply = reply_in({"choices": choices})

    assert reply is not None
    assert reply.cut_off


def test_tool_calls_as_finish_reason_with_an_empty_list_is_an_empty_reply() -> None:
    assert is_empty(parsed({"content": "", "tool_calls": []}, "tool_calls"))


def test_a_reply_split_into_two_choices_is_put_together() -> None:
    words = {"message": {"content": "launching"}, "finish_reason": "stop"}
    acts = {"message": {"content": None, "tool_calls": [call()]}, "finish_reason": "length"}

    reply = reply_in({"choices": [words, acts]})

    assert reply is not None
    assert (reply.text, len(reply.calls), reply.cut_off) == ("launching", 1, True)


def test_calls_of_two_alternative_choices_are_never_added_up() -> None:
    choice = {"message": {"content": None, "tool_calls": [call()]}, "finish_reason": "tool_calls"}

    reply = reply_in({"choices": [choice, choice]})

    assert reply is not None
    assert len(reply.calls) == 1


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3_000_000_000, "completion_tokens": 1e19}, Usage()),
        (None, Usage()),
        ("many", Usage()),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage()),
        ({"prompt_tokens": None}, Usage()),
        ({"prompt_tokens": -3, "completion_tokens": True}, Usage()),
        ({"prompt_tokens": float("inf"), "completion_tokens": 1.5}, Usage()),
        ({"prompt_tokens": 12.0, "completion_tokens": 3}, Usage(12, 3)),
        ({"prompt_tokens": 12, "prompt_tokens_details": None}, Usage(12)),
        ({"prompt_tokens": 12, "prompt_tokens_details": {"cached_tokens": 8}}, Usage(12, None, 8)),
        ({"prompt_tokens": 12, "prompt_tokens_details": {"cached_tokens": 0}}, Usage(12, None, 0)),
        ({"prompt_tokens": 12, "prompt_tokens_details": {"cached_tokens": 13}}, Usage(12)),
        ({"prompt_tokens": 12, "prompt_cache_hit_tokens": 4}, Usage(12, None, 4)),
        ({"input_tokens": 12, "output_tokens": 3}, Usage(12, 3)),
    ],
    ids=repr,
)
def test_usage_is_what_the_server_counted_and_none_where_it_did_not(usage: Any, expected: Usage) -> None:
    assert parsed({"content": "hold"}, usage=usage).usage == expected


def test_usage_may_stand_in_the_choice() -> None:
    body = completion({"content": "hold"})
    body["choices"][0]["usage"] = {"prompt_tokens": 12}

    reply = reply_in(body)

    assert reply is not None
    assert reply.usage == Usage(12)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "tool_calls", "function", "name", "arguments", "type", "text", "reasoning"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(message=JSON, finish_reason=JSON, usage=JSON)
def test_no_body_whatsoever_makes_parsing_fail(message: Any, finish_reason: Any, usage: Any) -> None:
    reply = reply_in(completion(message, finish_reason, usage=usage))

    assert reply is not None
    assert "\x00" not in reply.text
