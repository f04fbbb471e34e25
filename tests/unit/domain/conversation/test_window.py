"""Counting tokens, learning from the server's own counts, and what fits."""

from typing import Any

import pytest

from fleetagent.domain.conversation.window import (
    Anchor,
    Budget,
    Calibration,
    fit_tool_result,
    message_tokens,
    nearest,
    request_estimate,
    rooms_for_tool_results,
)

BUDGET = Budget(total=30_000, reply=2_000, tool_results=4_000)


def count(text: str) -> int:
    return -(-len(text) // 4)


class TestCalibration:
    def test_the_first_report_is_believed_and_later_ones_move_it(self) -> None:
        once = Calibration().learn(1_000, 1_300)
        twice = once.learn(1_000, 1_500)

        assert once.ratio == pytest.approx(1.3)
        assert twice.ratio == pytest.approx(1.36)

    @pytest.mark.parametrize(("estimated", "reported"), [(1_000, None), (1_000, 0), (1_000, -5), (0, 700)])
    def test_what_was_not_counted_teaches_nothing(self, estimated: int, reported: int | None) -> None:
        assert Calibration(1.2, 3).learn(estimated, reported) == Calibration(1.2, 3)

    @pytest.mark.parametrize(("reported", "ratio"), [(1, 0.6), (10**9, 3.0)])
    def test_nonsense_moves_it_only_so_far(self, reported: int, ratio: float) -> None:
        assert Calibration().learn(1_000, reported).ratio == ratio

    def test_of_what_is_added_a_template_has_no_part(self) -> None:
        known = Calibration(1.3, 4).learn_tail(Anchor(1_300, 1_000), Anchor(2_300, 2_000))

        assert known.ratio == 1.3
        assert known.tail == pytest.approx(1.0)
        assert known.project(3_000, Anchor(2_300, 2_000)) == 3_300
        assert known.project(3_000) == 3_900, "without a report the whole counts"

    def test_a_few_tokens_say_little_of_a_tail_and_large_ones_more(self) -> None:
        known, start = Calibration(1.3, 4, 1.0), Anchor(1_000, 1_000)

        assert known.learn_tail(start, Anchor(1_200, 1_099)).tail == 1.0
        assert known.learn_tail(start, Anchor(1_500, 1_250)).tail == pytest.approx(1.15)
        assert known.learn_tail(start, Anchor(3_000, 2_000)).tail == pytest.approx(1.3)
        assert known.learn_tail(start, Anchor(900, 500)).tail == 1.0

    def test_what_was_never_counted_is_in_doubt(self) -> None:
        known, anchor = Calibration(1.2, 4, 1.1), Anchor(8_000, 7_000)

        assert known.doubt(7_000, anchor) == 0
        assert known.doubt(8_000, anchor) == pytest.approx(110, abs=1)  # a tenth of the difference
        assert known.doubt(6_000, anchor) == pytest.approx(110, abs=1)
        assert known.doubt(7_000, anchor, exchanged=1_000) == pytest.approx(110, abs=1), "results shown shorter"
        assert known.doubt(7_000, anchor, frames=3) == 33, "what a template writes around messages and calls"
        assert known.doubt(1_000) == 120
        assert Calibration(1.0, 4).doubt(1_000) == 0, "the careful guess has that in it"

    def test_the_nearest_report_leaves_the_least_to_guess(self) -> None:
        first, last = Anchor(1_200, 1_000), Anchor(4_000, 3_500)

        assert (nearest((first, last), 1_900), nearest((first, last), 2_600)) == (first, last)
        assert nearest((), 1_000) is None

    def test_only_what_was_added_since_the_last_report_is_estimated(self) -> None:
        assert Calibration(1.5, 4).project(7_000, Anchor(reported=8_123, estimated=6_000)) == 9_623

    @pytest.mark.parametrize(("ratio", "projected"), [(1.0, 1_150), (0.7, 1_150), (1.6, 1_600)])
    def test_without_a_report_the_guess_is_careful(self, ratio: float, projected: int) -> None:
        assert Calibration(ratio, 1).project(1_000) == projected

    def test_a_conversation_that_shrank_never_projects_to_nothing(self) -> None:
        assert Calibration(3.0, 9).project(2_000, Anchor(reported=20_000, estimated=15_000)) == 1_200


def test_calls_schemas_and_template_are_counted() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "get_fleet", "arguments": '{"a":"bcdefgh"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "x" * 400},
        {"role": "assistant", "content": ".", "tool_calls": [call]},
    ]
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "get_fleet"}}]

    assert message_tokens(messages[0], count) == 105
    assert message_tokens(messages[1], count) == 1 + 5 + 3 + 4 + 10
    assert request_estimate(messages, tools, count) == 105 + 23 + 14 + 8


class TestToolResults:
    def test_a_result_of_12_000_tokens_is_seen_whole_by_its_run(self) -> None:
        text = "x" * 48_000

        rooms = rooms_for_tool_results([text], BUDGET, 6_000, Calibration(1.2, 5), count)

        assert fit_tool_result(text, rooms[0], count) == text

    def test_small_results_take_what_they_need_and_leave_the_rest_to_a_large_one(self) -> None:
        small, large = "y" * 400, "x" * 48_000

        rooms = rooms_for_tool_results([small, large, small], BUDGET, 6_000, Calibration(1.2, 5), count)

        assert rooms == (100, 12_000, 100)

    def test_large_results_share_the_room_equally(self) -> None:
        rooms = rooms_for_tool_results(["x" * 10**7] * 4, BUDGET, 6_000, Calibration(), count)

        assert max(rooms) - min(rooms) <= 1
        assert sum(rooms) <= (BUDGET.within_a_run - 6_000) / 1.15

    def test_what_does_not_fit_is_cut_and_says_so(self) -> None:
        cut_text = fit_tool_result("x" * 4_000, 100, count)

        assert count(cut_text) <= 100
        assert "[cut: " in cut_text
        assert "no room for the rest" in cut_text

    def test_without_room_there_is_still_an_answer(self) -> None:
        rooms = rooms_for_tool_results(["facts", "facts"], BUDGET, 29_000, Calibration(), count)

        assert rooms == (0, 0)
        assert fit_tool_result("facts", rooms[0], count).startswith("…[cut: 5 characters]")
