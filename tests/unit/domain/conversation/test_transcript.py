"""How stored rows become a valid request."""

import pytest

from fleetagent.domain.conversation.calls import NOTHING_SAID
from fleetagent.domain.conversation.messages import Kind, Message, ToolCall
from fleetagent.domain.conversation.strict import violations
from fleetagent.domain.conversation.transcript import LEFT_OUT, NO_OUTPUT, NO_RESULT, repair, wire
from fleetagent.domain.model import JsonObject, RawCall, Reply, Usage
from fleetagent.sim.model.personality import PERSONALITIES, Personality
from support.histories import refused


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

    def test_thoughts_that_an_older_version_stored_are_shown_to_nobody(self) -> None:
        rows = (observed(1), said(1, "so I should…</think>\nHold."), observed(2), said(2, "<think>hm"), observed(3))

        assert [m["content"] for m in sent(*rows)] == ["be good", "facts", "Hold.", "facts", "facts"]

    def test_what_is_kept_for_the_audit_never_goes_on_the_wire(self) -> None:
        broken = ToolCall("r1_1_0", "act", '{"invalid_arguments":"(1"}', original="act [1")
        rows = (observed(1), Message(1, Kind.REPLY, "assistant", "", tool_calls=(broken,)), answered(1, "r1_1_0", "no"))

        assert repair(rows) == rows
        assert "act [1" not in str(sent(*rows))


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

    @pytest.mark.parametrize("personality", PERSONALITIES.values(), ids=lambda p: p.name)
    def test_the_text_beside_calls_that_say_nothing_is_taken_by_each_kind_of_server(
        self, personality: Personality
    ) -> None:
        rows = (observed(1), asked(1, "a", "b"), answered(1, "a", "A"), answered(1, "b", "B"), said(1, "hold"))

        assert refused(sent(*rows, observed(2), asked(2, "c"), answered(2, "c", "C")), personality) == []
