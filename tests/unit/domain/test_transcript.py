"""What is stored of a reply, and how stored rows become a valid request."""

import json

import pytest

from fleetagent.domain.messages import Kind, Message, ToolCall
from fleetagent.domain.model import JsonObject, RawCall, Reply, Usage
from fleetagent.domain.transcript import (
    LEFT_OUT,
    MAX_CALLS,
    NO_ANSWER,
    NO_OUTPUT,
    NO_RESULT,
    NOTHING_SAID,
    normalise,
    repair,
    violations,
    wire,
)


def a_reply(text: str = "", *calls: tuple[str, str], cut_off: bool = False) -> Reply:
    raw = tuple(RawCall(name, arguments) for name, arguments in calls)
    return Reply(text, raw, cut_off=cut_off, usage=Usage(), finish_reason="stop")


def observed(run_id: int, text: str = "facts", **more: str) -> Message:
    return Message(run_id, Kind.OBSERVATION, "user", text, **more)  # type: ignore[arg-type]


def asked(run_id: int, *call_ids: str, text: str = "") -> Message:
    calls = tuple(ToolCall(call_id, "get_fleet", "{}") for call_id in call_ids)
    return Message(run_id, Kind.REPLY, "assistant", text, tool_calls=calls)


def answered(run_id: int, call_id: str, text: str, history: str | None = None) -> Message:
    return Message(run_id, Kind.TOOL_RESULT, "tool", text, tool_call_id=call_id, history_content=history)


def said(run_id: int, text: str) -> Message:
    return Message(run_id, Kind.REPLY, "assistant", text)


def sent(*messages: Message, current_run: int = 9, masked_before_run: int = 0) -> tuple[JsonObject, ...]:
    return wire("be good", repair(messages), current_run=current_run, masked_before_run=masked_before_run)


class TestReplies:
    @pytest.mark.parametrize(
        ("raw", "stored"),
        [
            ('{"offer_id": "12"}', '{"offer_id":"12"}'),
            ("", "{}"),
            ("null", "{}"),
            (" \n", "{}"),
            ('""', "{}"),
            ('"{\\"minutes\\": 5}"', '{"minutes":5}'),
            ('"\\"{}\\""', None),
            ('{"reason":"one\ntwo"}', '{"reason":"one\\ntwo"}'),
            ('{"reason":"a\\u0000b\\ud800"}', '{"reason":"ab\ufffd"}'),
            ('{"reason":"ü"}', '{"reason":"ü"}'),
            ('{"offer_id": 12', None),
            ("[]", None),
            ('"x"', None),
            ("7", None),
            ('{"a":NaN}', None),
            ('{"a":-Infinity}', None),
            ('{"a":1e999}', None),
            ('{"a":1' + "0" * 5_000 + "}", None),
            ('{"a":1' + "0" * 400 + "}", None),
            ('{"a":1,"a":2}', None),
            ('{"a":1,"a\\u0000":2}', None),
            ('{"a":' * 500 + "1" + "}" * 500, None),
            ("[" * 7_999, None),
            ('{"a":"' + "x" * 1_000_000 + '"}', None),
            ("plain words", None),
        ],
    )
    def test_arguments_are_stored_as_the_text_of_a_json_object(self, raw: str, stored: str | None) -> None:
        message, (call,) = normalise(a_reply("", ("launch_instance", raw)), 7, 2)

        kept = message.tool_calls[0].arguments
        if stored is None:
            assert call.arguments is None
            assert call.problem is not None
            assert len(kept) < 500
            assert list(json.loads(kept)) == ["invalid_arguments"]
        else:
            assert (kept, call.problem) == (stored, None)
            assert call.arguments == json.loads(stored)

    def test_ids_are_ours_and_unique(self) -> None:
        message, calls = normalise(a_reply("", ("get_fleet", "{}"), ("get_fleet", "{}")), 412, 3)

        assert [c.id for c in calls] == [c.id for c in message.tool_calls] == ["r412_3_0", "r412_3_1"]

    @pytest.mark.parametrize(
        ("raw", "stored", "may_run"),
        [
            ("get_fleet", "get_fleet", True),
            (" get_fleet\n", "get_fleet", True),
            ("functions.get_fleet", "functions_get_fleet", False),
            ("get fleet", "get_fleet", False),
            ("", "unnamed", False),
            ("x" * 300, "x" * 64, False),
            ("launch\x00_instance", "launch_instance", False),
        ],
    )
    def test_a_name_that_had_to_be_changed_runs_nothing(self, raw: str, stored: str, may_run: bool) -> None:  # noqa: FBT001
        message, (call,) = normalise(a_reply("", (raw, "{}")), 1, 1)

        assert (message.tool_calls[0].name, call.name) == (stored, stored) or "\x00" in raw
        assert (call.problem is None) is may_run

    @pytest.mark.parametrize("text", ["", "  \n", "\x00", "<think>hm", "<think>hm</think>\n"])
    def test_an_answer_without_anything_becomes_a_placeholder(self, text: str) -> None:
        message, calls = normalise(a_reply(text), 1, 1)

        assert (message.content, calls) == (NO_ANSWER, ())

    def test_leaked_thoughts_are_not_stored(self) -> None:
        message, _ = normalise(a_reply("so I should…</think>\n\nHold."), 1, 1)

        assert message.content == "Hold."

    def test_no_call_of_a_cut_off_answer_may_run(self) -> None:
        _, calls = normalise(a_reply("", ("get_fleet", "{}"), ("stop_instance", '{"i'), cut_off=True), 1, 1)

        assert [(c.arguments, "cut off" in str(c.problem)) for c in calls] == [(None, True), (None, True)]

    def test_the_caller_may_declare_an_answer_cut_off(self) -> None:
        _, (call,) = normalise(a_reply("", ("get_fleet", "{}")), 1, 1, cut_off=True)

        assert call.problem is not None

    def test_calls_beyond_the_limit_are_named_and_not_made(self) -> None:
        message, calls = normalise(a_reply("", *[("get_fleet", "{}")] * (MAX_CALLS + 3)), 1, 1)

        assert len(calls) == len(message.tool_calls) == MAX_CALLS
        assert "3 more calls" in message.content


class TestRepair:
    def test_a_valid_conversation_stays_as_it_is(self) -> None:
        rows = (observed(1), asked(1, "r1_1_0", text="let me see"), answered(1, "r1_1_0", "5"), said(1, "hold"))

        assert repair(rows) == rows

    def test_a_call_without_a_result_is_answered_right_after_it(self) -> None:
        fixed = repair([observed(1), asked(1, "a", "b"), answered(1, "b", "B"), observed(2)])

        assert [(m.role, m.tool_call_id, m.content) for m in fixed[2:]] == [
            ("tool", "a", NO_RESULT),
            ("tool", "b", "B"),
            ("user", None, "facts"),
        ]

    def test_a_result_without_a_call_is_dropped(self) -> None:
        fixed = repair([answered(1, "gone", "x"), observed(2), answered(2, "never", "y")])

        assert [m.role for m in fixed] == ["user"]

    def test_a_late_result_moves_to_its_call(self) -> None:
        fixed = repair([observed(1), asked(1, "a"), Message(1, Kind.FEEDBACK, "user", "stop!"), answered(1, "a", "A")])

        assert [m.content for m in fixed] == ["facts", "", "A", "stop!"]

    def test_a_server_with_one_id_for_all_calls_loses_no_result(self) -> None:
        fixed = repair(
            [
                observed(1),
                asked(1, "x", "x"),
                answered(1, "x", "first"),
                answered(1, "x", "second"),
                asked(1, "x"),
                answered(1, "x", "third"),
            ]
        )

        results = [(m.tool_call_id, m.content) for m in fixed if m.role == "tool"]
        assert results == [("x", "first"), ("x_2", "second"), ("x_3", "third")]
        assert [c.id for m in fixed for c in m.tool_calls] == ["x", "x_2", "x_3"]

    def test_an_unanswered_call_does_not_take_the_result_of_a_later_one(self) -> None:
        fixed = repair([observed(1), asked(1, "x"), observed(2), asked(2, "x"), answered(2, "x", "of run 2")])

        assert [m.content for m in fixed if m.role == "tool"] == [NO_RESULT, "of run 2"]

    def test_two_answers_in_a_row_become_one(self) -> None:
        fixed = repair([observed(1), said(1, "hold"), said(2, "and wait"), asked(2, "a")])

        assert [(m.role, m.content) for m in fixed] == [
            ("user", "facts"),
            ("assistant", "hold\n\nand wait"),
            ("tool", NO_RESULT),
        ]

    def test_empty_messages_are_dropped(self) -> None:
        fixed = repair([observed(1), Message(1, Kind.NUDGE, "user", " \x00"), said(1, ""), observed(2, "more")])

        assert [m.content for m in fixed] == ["facts", "more"]

    def test_a_tool_that_said_nothing_has_a_result_that_says_so(self) -> None:
        assert sent(observed(9), asked(9, "a"), answered(9, "a", " \x00"))[3]["content"] == NO_OUTPUT

    def test_a_conversation_that_lost_its_user_messages_gets_one(self) -> None:
        assert [m.role for m in repair([said(4, "hold")])] == ["user", "assistant"]
        assert [m.role for m in repair([])] == ["user"]

    def test_rows_from_before_the_hygiene_cannot_poison_the_session(self) -> None:
        bad = ToolCall("", "get fleet!", '{"offer_id": 12')
        fixed = repair([observed(1), Message(1, Kind.REPLY, "system", "a\x00b", tool_calls=(bad, bad))])

        assert fixed[1].role == "assistant"
        assert [(c.id, c.name) for c in fixed[1].tool_calls] == [("call", "get_fleet_"), ("call_2", "get_fleet_")]
        assert violations(sent(*fixed)) == []


class TestWire:
    RUN = (
        observed(1, "the facts", history_content="facts"),
        asked(1, "a", text="Let me look."),
        answered(1, "a", "x" * 900, "x"),
    )

    def test_a_run_sees_all_of_its_own_messages(self) -> None:
        assert [m["content"] for m in sent(*self.RUN, current_run=1)] == [
            "be good",
            "the facts",
            "Let me look.",
            "x" * 900,
        ]

    def test_later_runs_see_what_history_keeps(self) -> None:
        assert [m["content"] for m in sent(*self.RUN, current_run=2)] == ["be good", "facts", NOTHING_SAID, "x"]

    def test_masked_runs_keep_their_shape(self) -> None:
        rows = (*self.RUN, said(1, "hold"))

        shown = sent(*rows, current_run=5, masked_before_run=2)

        assert [m["content"] for m in shown] == ["be good", LEFT_OUT, NOTHING_SAID, LEFT_OUT, "hold"]

    def test_a_person_s_words_are_never_masked_or_shortened(self) -> None:
        words = Message(1, Kind.FEEDBACK, "user", "prefer the EU", history_content="prefer")

        assert sent(words, current_run=5, masked_before_run=4)[1]["content"] == "prefer the EU"

    def test_the_current_run_is_never_masked(self) -> None:
        assert sent(observed(5), current_run=5, masked_before_run=9)[1]["content"] == "facts"

    def test_a_call_without_words_goes_out_with_a_text_that_every_server_takes(self) -> None:
        call = sent(*self.RUN[:1], asked(1, "a"), current_run=1)[2]

        assert call == {
            "role": "assistant",
            "content": ".",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "get_fleet", "arguments": "{}"}}],
        }


SYSTEM: JsonObject = {"role": "system", "content": "s"}
USER: JsonObject = {"role": "user", "content": "u"}
RESULT: JsonObject = {"role": "tool", "tool_call_id": "a", "content": "r"}


def calling(*ids: str, name: str = "f", arguments: object = "{}", content: object = ".") -> JsonObject:
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


@pytest.mark.parametrize(
    ("messages", "flaw"),
    [
        ([USER], "first message must be the system"),
        ([SYSTEM, USER, SYSTEM], "second system"),
        ([SYSTEM], "no user message"),
        ([SYSTEM, {"role": "user", "content": " "}], "user message is empty"),
        ([SYSTEM, USER, {"role": "assistant", "content": ""}], "assistant message is empty"),
        ([SYSTEM, USER, {"role": "assistant", "content": None}], "plain string"),
        ([SYSTEM, {"role": "user", "content": [{"type": "text", "text": "u"}]}], "plain string"),
        ([SYSTEM, USER, calling("a", arguments="[]"), RESULT], "JSON object"),
        ([SYSTEM, USER, calling("a", arguments='{"a":NaN}'), RESULT], "JSON object"),
        ([SYSTEM, USER, calling("a", arguments={}), RESULT], "JSON object"),
        ([SYSTEM, USER, calling("a", name="functions.f"), RESULT], "cannot name a tool"),
        ([SYSTEM, USER, calling(), USER], "list with calls"),
        ([SYSTEM, USER, calling("a", "a"), RESULT, RESULT], "not unique"),
        ([SYSTEM, USER, calling("a"), RESULT, calling("a"), RESULT], "not unique"),
        ([SYSTEM, USER, calling("x" * 41), {**RESULT, "tool_call_id": "x" * 41}], "too long"),
        ([SYSTEM, USER, calling(""), {**RESULT, "tool_call_id": ""}], "empty"),
        ([SYSTEM, USER, RESULT], "does not follow"),
        ([SYSTEM, USER, calling("a"), RESULT, RESULT], "does not follow"),
        ([SYSTEM, USER, calling("a")], "unanswered"),
        ([SYSTEM, USER, calling("a"), USER, RESULT], "unanswered"),
        ([SYSTEM, USER, *[{"role": "assistant", "content": "x"}] * 2], "in a row"),
        ([SYSTEM, {"role": "user", "content": "a\x00"}], "x00"),
        ([SYSTEM, USER, calling("a", arguments='{"a":"\ud800"}'), RESULT], "ud800"),
        ([SYSTEM, USER, {"role": "developer", "content": "x"}], "unknown role"),
    ],
)
def test_the_last_check_sees_what_a_strict_server_would_refuse(messages: list[JsonObject], flaw: str) -> None:
    assert any(flaw in found for found in violations(messages)), violations(messages)


def test_the_last_check_lets_a_valid_request_pass() -> None:
    messages = [SYSTEM, USER, calling("a"), RESULT, {"role": "assistant", "content": "done"}, USER]

    assert violations(messages) == []
