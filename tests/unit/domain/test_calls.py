"""What is stored of a reply, and what of it may be executed."""

import json

import pytest

from fleetagent.domain.calls import MAX_CALLS, NO_ANSWER, normalise
from fleetagent.domain.model import RawCall, Reply, Usage


def a_reply(text: str = "", *calls: tuple[str, str], cut_off: bool = False) -> Reply:
    raw = tuple(RawCall(name, arguments) for name, arguments in calls)
    return Reply(text, raw, cut_off=cut_off, usage=Usage(), finish_reason="stop")


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
