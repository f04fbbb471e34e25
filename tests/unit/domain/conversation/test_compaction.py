"""What leaves the prompt, in which order, and how much."""

from fleetagent.domain.conversation.compaction import Compaction, FeedbackSize, RunSize, plan
from fleetagent.domain.conversation.window import Budget

BUDGET = Budget(total=30_000, reply=2_000, tool_results=4_000)


def planned(
    *runs: RunSize,
    fixed: int = 4_000,
    summary: int = 0,
    scale: float = 1.0,
    budget: Budget = BUDGET,
    masked_before_run: int = 0,
    within_a_run: bool = False,
    overflowed: bool = False,
) -> Compaction | None:
    shown = sum(r.tokens_masked if r.run_id < masked_before_run else r.tokens_full for r in runs)
    return plan(
        runs,
        fixed_tokens=fixed,
        summary_tokens=summary,
        projected_tokens=int((fixed + shown) * scale),
        budget=budget,
        masked_before_run=masked_before_run,
        within_a_run=within_a_run,
        overflowed=overflowed,
    )


def a_run(run_id: int, full: int, masked: int | None = None, *feedback: FeedbackSize) -> RunSize:
    return RunSize(run_id, full, full if masked is None else masked, feedback)


class TestPlan:
    def test_nothing_leaves_while_the_request_fits(self) -> None:
        assert planned(a_run(1, 20_000)) is None

    def test_masking_alone_is_taken_when_it_frees_a_lot(self) -> None:
        runs = [a_run(i, 2_500, 300) for i in range(1, 10)]

        assert planned(*runs, fixed=2_500) == Compaction(8, (), (), (), 2_500 + 7 * 300 + 2 * 2_500)

    def test_old_facts_are_masked_early_when_they_are_a_good_part_of_what_each_request_costs(self) -> None:
        runs = [a_run(i, 1_000, 250) for i in range(1, 10)]

        assert planned(*runs, fixed=2_000) == Compaction(8, (), (), (), 2_000 + 7 * 250 + 2 * 1_000)
        assert planned(*runs, fixed=2_000, within_a_run=True) is None, "only at the start of a run"
        assert planned(*runs, fixed=2_000, masked_before_run=5) is None, "too little is left to free"

    def test_nothing_is_masked_early_when_too_much_would_be_left(self) -> None:
        runs = [a_run(i, 1_500, 600) for i in range(1, 10)]

        assert planned(*runs, fixed=2_000) is not None
        assert planned(*runs, fixed=6_000) is None

    def test_the_oldest_runs_leave_when_masking_frees_too_little(self) -> None:
        runs = [a_run(i, 2_500, 2_000) for i in range(1, 10)]

        found = planned(*runs, fixed=4_000)

        assert found is not None
        assert found.summarise_runs == (1, 2, 3, 4, 5, 6, 7, 8)
        assert found.masked_before_run == 8
        assert found.projected_after == 4_000 + BUDGET.summary_cap + 2_500

    def test_what_was_masked_before_is_not_masked_again(self) -> None:
        runs = [a_run(i, 9_000, 2_000) for i in range(1, 12)]

        found = planned(*runs, masked_before_run=10)

        assert found is not None
        assert found.summarise_runs[:7] == (1, 2, 3, 4, 5, 6, 7)

    def test_a_short_but_huge_conversation_leaves_whole(self) -> None:
        found = planned(a_run(1, 38_000, 37_000))

        assert found is not None
        assert found.summarise_runs == (1,)
        assert found.projected_after <= BUDGET.before_a_run

    def test_the_newest_run_stays_when_it_fits_with_room_to_spare(self) -> None:
        found = planned(a_run(1, 15_000), a_run(2, 9_000))

        assert found is not None
        assert found.summarise_runs == (1,)

    def test_a_server_that_counts_more_than_we_makes_more_leave(self) -> None:
        runs = [a_run(i, 1_000) for i in range(1, 20)]

        modest, strict = planned(*runs, fixed=6_000, scale=1.0), planned(*runs, fixed=6_000, scale=1.6)

        assert modest is not None
        assert strict is not None
        assert len(strict.summarise_runs) > len(modest.summarise_runs)

    def test_within_a_run_the_results_may_use_what_was_kept_for_them(self) -> None:
        run = a_run(1, 22_000)

        assert planned(run, within_a_run=True) is None
        assert planned(run, within_a_run=False) is not None

    def test_a_request_that_was_refused_for_its_length_shrinks_whatever_we_think_of_it(self) -> None:
        runs = [a_run(i, 1_000, 200) for i in range(1, 9)]

        found = planned(*runs, fixed=2_000, overflowed=True)

        assert found is not None
        assert found.summarise_runs == (1, 2, 3, 4, 5, 6, 7)

    def test_nothing_is_planned_when_there_is_nothing_to_go(self) -> None:
        assert planned(fixed=40_000) is None
        assert planned(a_run(1, 500, 500, FeedbackSize(3, 500)), fixed=40_000) is None

    def test_words_of_people_stay_when_their_run_leaves(self) -> None:
        runs = [a_run(1, 20_000, 19_000, FeedbackSize(3, 400)), a_run(2, 9_000, 8_000, FeedbackSize(9, 300))]

        found = planned(*runs)

        assert found is not None
        assert found.summarise_runs == (1,)
        assert (found.keep_feedback, found.drop_feedback) == ((3,), ())

    def test_words_beyond_their_share_drop_out_from_the_oldest_on(self) -> None:
        said = [FeedbackSize(seq, 1_000) for seq in range(1, 8)]
        runs = [a_run(1, 20_000, 20_000, *said[:4]), a_run(2, 20_000, 20_000, *said[4:])]

        found = planned(*runs)

        assert found is not None
        assert (found.keep_feedback, found.drop_feedback) == ((4, 5, 6, 7), (1, 2, 3))

    def test_words_of_runs_that_stay_use_up_the_share_first(self) -> None:
        staying = a_run(2, 5_000, 5_000, FeedbackSize(2, 4_000))

        found = planned(a_run(1, 25_000, 25_000, FeedbackSize(1, 1_000)), staying)

        assert found is not None
        assert (found.summarise_runs, found.keep_feedback, found.drop_feedback) == ((1,), (), (1,))

    def test_words_that_came_after_do_not_make_the_newest_runs_old(self) -> None:
        said = [a_run(i, 50, 50, FeedbackSize(i, 50)) for i in (20, 21)]

        found = planned(*[a_run(i, 2_500, 200) for i in range(1, 11)], *said)

        assert found is not None
        assert found.masked_before_run == 9

    def test_words_that_stayed_once_are_no_run_to_summarise_again(self) -> None:
        left_before = a_run(1, 900, 900, FeedbackSize(2, 900))

        found = planned(left_before, a_run(5, 30_000))

        assert found is not None
        assert (found.summarise_runs, found.keep_feedback) == ((5,), (2,))
