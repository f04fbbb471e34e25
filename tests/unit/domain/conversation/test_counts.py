"""What a server's count is worth: good, none, nonsense, or that of a prompt which was cut off without a word."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetagent.domain.conversation.counts import Clip, Counts, Worth, believable, counts_in
from fleetagent.domain.conversation.window import Anchor, Calibration

KNOWN = Calibration(1.2, 9, 1.1)
NEW = Calibration()


def counts(*anchors: tuple[int, int], of_run: int = 1, newest: tuple[int, int] | None = None) -> Counts:
    """As after these requests, each (reported, estimated)."""
    made = tuple(Anchor(*a) for a in anchors)
    seen = Anchor(*newest) if newest else made[-1] if made else None
    return Counts("http://m qwen", "v", of_run, made, seen)


def worth(before: Counts, reported: int | None, estimated: int, calibration: Calibration = KNOWN) -> Worth:
    return before.take(reported, estimated, calibration, 1)[2]


class TestAGoodCount:
    def test_the_first_and_the_newest_of_a_run_are_what_the_next_is_projected_from(self) -> None:
        found = counts()
        for reported, estimated in ((1_200, 1_000), (1_800, 1_500), (4_000, 3_500)):
            found, _, _ = found.take(reported, estimated, KNOWN, 7)

        assert found.anchors == (Anchor(1_200, 1_000), Anchor(4_000, 3_500))
        assert found.anchor(1_050, 8) == Anchor(1_200, 1_000), "as after a quiet run: what it saw has left"
        assert found.anchor(3_400, 8) == Anchor(4_000, 3_500), "as after a run that left little shorter than it was"
        assert found.anchor(1_050, 7) == Anchor(4_000, 3_500), "within the run each request adds to the last one"

    def test_those_of_the_run_before_go_with_the_first_of_a_new_one(self) -> None:
        found, _, _ = counts((1_200, 1_000), (4_000, 3_500), of_run=7).take(1_250, 1_040, KNOWN, 8)

        assert (found.of_run, found.anchors) == (8, (Anchor(1_250, 1_040),))

    def test_it_moves_the_ratio_of_the_whole_and_what_a_run_added_moves_that_of_a_tail(self) -> None:
        first, calibration, _ = counts().take(1_300, 1_000, NEW, 1)
        assert calibration.ratio == pytest.approx(1.3)
        assert calibration.tail is None

        _, calibration, _ = first.take(2_300, 2_000, calibration, 1)

        assert calibration.tail == pytest.approx(1.0), "the template's own text is in the first request already"
        assert calibration.ratio == pytest.approx(1.3 + 0.3 * (1.15 - 1.3))

    def test_what_came_between_two_runs_says_nothing_of_a_tail(self) -> None:
        _, calibration, _ = counts((1_200, 1_000)).take(2_000, 1_500, KNOWN, 2)

        assert calibration.tail == KNOWN.tail

    def test_one_far_above_what_was_projected_is_learnt_and_said(self) -> None:
        found, calibration, what = counts((1_000, 1_000)).take(2_000, 1_010, KNOWN, 1)

        assert what is Worth.SURPRISING
        assert found.anchors[-1] == Anchor(2_000, 1_010)
        assert calibration.ratio > KNOWN.ratio


class TestNoCount:
    @pytest.mark.parametrize("reported", [None, 0, -7, 10_001, 10**9])
    def test_what_is_missing_or_absurd_teaches_nothing_and_is_marked(self, reported: int | None) -> None:
        before = counts((1_200, 1_000), newest=(1_200, 1_000))

        found, calibration, what = before.take(reported, 1_000, KNOWN, 1)

        assert (what, calibration) == (Worth.UNCOUNTED, KNOWN)
        assert (found.anchors, found.newest, found.uncounted) == ((), before.newest, True)

    def test_the_mark_goes_with_the_next_count(self) -> None:
        marked, _, _ = counts().take(None, 1_000, KNOWN, 1)

        assert not marked.take(1_200, 1_000, KNOWN, 1)[0].uncounted

    def test_ten_times_the_estimate_can_just_be_believed(self) -> None:
        assert believable(10_000, 1_000) == 10_000


class TestAPromptThatWasCutOff:
    @pytest.mark.parametrize(("reported", "what"), [(600, Worth.GOOD), (599, Worth.CLIPPED)])
    def test_before_anything_was_learnt_no_tokenizer_explains_less_than_0_6(self, reported: int, what: Worth) -> None:
        assert worth(counts(), reported, 1_000, NEW) is what

    @pytest.mark.parametrize(("reported", "what"), [(960, Worth.GOOD), (959, Worth.CLIPPED)])
    def test_once_a_ratio_was_learnt_less_than_0_8_of_what_it_lets_expect(self, reported: int, what: Worth) -> None:
        assert worth(counts(), reported, 1_000) is what

    def test_one_figure_for_two_prompts_of_which_the_second_is_clearly_longer(self) -> None:
        before = counts((4_096, 4_000))

        assert worth(before, 4_096, 4_200) is Worth.CLIPPED
        assert worth(before, 4_096, 4_050) is Worth.GOOD, "an estimate may move a little for the same prompt"

    def test_it_is_told_with_both_figures_and_teaches_nothing(self) -> None:
        before = counts((3_600, 3_000))

        found, calibration, _ = before.take(4_096, 13_000, KNOWN, 1)

        assert found.clip == Clip(4_096, 3_600 + 11_000)
        assert (found.anchors, calibration) == ((), KNOWN)

    def test_it_recovers_by_itself_with_the_first_prompt_that_fits(self) -> None:
        clipped, _, _ = counts((3_600, 3_000)).take(4_096, 13_000, KNOWN, 1)
        still, _, what = clipped.take(4_096, 13_400, KNOWN, 2)
        assert (what, still.clip) == (Worth.CLIPPED, Clip(4_096, math.ceil(13_400 * 1.2)))

        well, _, what = still.take(2_400, 2_000, KNOWN, 3)

        assert (what, well.clip, well.anchors) == (Worth.GOOD, None, (Anchor(2_400, 2_000),))

    def test_a_result_of_another_kind_of_text_is_no_cut(self) -> None:
        # Prose and schemas first, then a long list of figures, of which this tokenizer makes far less than we do.
        prose, calibration, _ = counts().take(2_900, 3_000, NEW, 1)

        assert worth(prose, 2_900 + 7_000, 3_000 + 10_000, calibration) is Worth.GOOD

    def test_what_left_the_prompt_may_have_been_of_another_kind_too(self) -> None:
        assert worth(counts((20_000, 15_000)), 7_000, 7_000, Calibration(1.33, 9, 1.3)) is Worth.GOOD

    def test_another_model_under_the_old_name_is_believed_once_its_counts_move_with_the_prompt(self) -> None:
        before = counts((6_000, 5_000))
        suspect, calibration, what = before.take(3_750, 5_010, KNOWN, 2)
        assert what is Worth.CLIPPED

        found, calibration, what = suspect.take(4_260, 5_700, calibration, 2)

        assert (what, found.clip) == (Worth.ANOTHER, None)
        assert calibration == Calibration(1.0 + (4_260 / 5_700 - 1.0), 1)

    @example(3_200, [3_551, 752], 1.4521)  # its count grows by half of what our estimate does, a third of the truth
    @given(st.integers(2_000, 8_000), st.lists(st.integers(100, 4_000), min_size=1, max_size=12), st.floats(0.8, 1.6))
    def test_a_growing_prompt_at_a_window_that_clips_is_found_before_it_is_twice_as_long(
        self, window: int, added: list[int], factor: float
    ) -> None:
        found, calibration, estimated = counts(), NEW, 1_000
        worths = []
        for more in added:
            true_count = int(estimated * factor)
            found, calibration, what = found.take(min(true_count, window), estimated, calibration, 1)
            worths.append((true_count, what))
            estimated += more
        for true_count, what in worths:
            if true_count <= window:
                assert what in {Worth.GOOD, Worth.SURPRISING}
            elif true_count > 2 * window:
                assert what is Worth.CLIPPED

    @given(st.floats(0.7, 2.5), st.lists(st.tuples(st.integers(500, 30_000), st.floats(0.97, 1.03)), max_size=30))
    def test_a_server_that_counts_evenly_is_never_suspected(
        self, factor: float, requests: list[tuple[int, float]]
    ) -> None:
        found, calibration = counts(), NEW
        for run_id, (estimated, noise) in enumerate(requests):
            reported = int(estimated * factor * noise)
            if found.newest is not None and reported == found.newest.reported:
                continue
            found, calibration, what = found.take(reported, estimated, calibration, run_id)
            assert what in {Worth.GOOD, Worth.SURPRISING}


class TestStored:
    def test_what_is_stored_comes_back(self) -> None:
        whole = Counts("e", "v", 3, (Anchor(1, 2),), Anchor(3, 4), 8_192, Clip(5, 6), uncounted=True)
        stored = {
            "endpoint": "e",
            "vocabulary": "v",
            "of_run": 3,
            "anchors": [{"reported": 1, "estimated": 2}],
            "newest": {"reported": 3, "estimated": 4},
            "window_tokens": 8_192,
            "clip": {"reported": 5, "projected": 6},
            "uncounted": True,
        }

        assert counts_in(stored) == whole

    @pytest.mark.parametrize(
        "stored", [None, {}, {"endpoint": "e"}, {"endpoint": "e", "vocabulary": "v", "of_run": "x"}]
    )
    def test_what_cannot_be_read_is_as_if_nothing_had_been_counted(self, stored: dict[str, object] | None) -> None:
        assert counts_in(stored) is None
