"""Bounds on what a model may repeat."""

from fleetagent.agent.progress import CUT_OFF_TWICE, MOST_CALLS, MOST_SAME_CALLS, MOST_USELESS_ANSWERS, Progress
from fleetagent.domain.conversation.calls import Call


def a_call(name: str = "look", **arguments: int) -> Call:
    return Call("r1_1_0", name, dict(arguments))


def after(progress: Progress, *calls: Call, effects: int = 0, unusable: int = 0, cut_off: bool = False) -> str | None:
    return progress.stuck_after(calls, cut_off=cut_off, unusable=unusable, effects=effects, last="no such tool")


def test_the_same_call_may_come_a_few_times() -> None:
    progress = Progress()

    assert [after(progress, a_call(page=1)) for _ in range(MOST_SAME_CALLS)] == [None] * MOST_SAME_CALLS
    assert after(progress, a_call(page=1)) == "the same call was made 4 times: look"


def test_the_same_call_twice_in_one_answer_is_one_repetition() -> None:
    progress = Progress()

    assert [after(progress, *[a_call()] * 9) for _ in range(MOST_SAME_CALLS)] == [None] * MOST_SAME_CALLS


def test_other_arguments_are_another_call() -> None:
    progress = Progress()

    assert [after(progress, a_call(page=n)) for n in range(20)] == [None] * 20


def test_after_an_effect_all_counts_anew_but_useless_answers() -> None:
    progress = Progress()

    assert [after(progress, *[a_call()] * 16, effects=n + 1) for n in range(20)] == [None] * 20
    assert [after(progress, a_call("x"), unusable=1) for _ in range(MOST_USELESS_ANSWERS)] == [None] * 3
    assert "answers held no call that could be executed" in str(after(progress, a_call("y"), effects=21, unusable=1))


def test_one_usable_call_makes_an_answer_useful() -> None:
    progress = Progress()

    assert [after(progress, a_call(n=n), a_call("x", n=n), unusable=1) for n in range(9)] == [None] * 9


def test_calls_beyond_the_limit_are_answered_and_not_executed() -> None:
    progress = Progress()
    calls = [a_call(n=n) for n in range(16)]
    for first in range(0, MOST_CALLS - 16, 16):
        after(progress, *[a_call(n=first + n) for n in range(16)])
    after(progress, *calls[:10])

    allowed = progress.within_limit(calls)

    assert [c.problem is None for c in allowed] == [True] * 6 + [False] * 10
    assert [c.arguments is None for c in allowed] == [False] * 6 + [True] * 10


def test_a_second_answer_that_is_cut_off_ends_it() -> None:
    progress = Progress()

    assert after(progress, cut_off=True) is None
    assert after(progress, a_call(), cut_off=True, unusable=1) == CUT_OFF_TWICE
