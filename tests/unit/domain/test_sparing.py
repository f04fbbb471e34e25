"""What is said of a resource stays readable, whatever happens to it."""

from fleetagent.domain.sparing import AT_ONCE, SECONDS_EACH, Sparing


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_same_warning_within_a_minute_is_only_counted_and_the_count_is_said_with_the_next_one() -> None:
    clock = Clock()
    sparing = Sparing(clock)
    said = []
    for _ in range(4):
        said.append(sparing.words("porep", "Warning", "DeletionWaits", "it waits"))
        clock.now += 20

    assert said == ["it waits", None, None, "it waits (and 2 more times since this was said last)"]
    assert sparing.words("porep", "Warning", "DeletionWaits", "it waits for another") == "it waits for another"
    assert sparing.words("other", "Warning", "DeletionWaits", "it waits") == "it waits"


def test_what_happens_twice_is_said_twice() -> None:
    sparing = Sparing(Clock())

    said = [sparing.words("porep", "Normal", "SessionReset", "a new one starts") for _ in range(3)]

    assert said == ["a new one starts"] * 3


def test_of_too_many_at_once_the_last_are_left_out_and_counted_and_warnings_still_come_through() -> None:
    clock = Clock()
    sparing = Sparing(clock)

    said = [sparing.words("porep", "Normal", "ActionRefused", f"run {n}") for n in range(100)]

    assert sum(words is not None for words in said) == AT_ONCE
    assert sparing.words("porep", "Warning", "Alert", "alert-1: come") == "alert-1: come"
    assert sparing.words("other", "Normal", "Launched", "one") == "one"
    assert sparing.leaves_out("porep")
    assert not sparing.leaves_out("other")
    assert sparing.left_out("porep") == "60 Events were left out, there were too many at once: ActionRefused 60"
    assert not sparing.leaves_out("porep")
    clock.now += 3 * SECONDS_EACH
    later = [sparing.words("porep", "Normal", "ActionRefused", f"later {n}") for n in range(5)]
    assert [words is not None for words in later] == [True, True, True, False, False]
