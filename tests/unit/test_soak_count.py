"""What the soak counts: a run that is late, lost, doubled or off the beat must not escape it."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from support.soak.plan import Blow, Plan
from support.soak.slots import Count, Slot, count

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
TEN = timedelta(seconds=10)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_slot(planned: float, started: float | None = None) -> Slot:
    """Planned at a second, and by default started then."""
    return Slot(at(planned), at(planned if started is None else started))


def counted(*slots: Slot, until: float = 40, blows: tuple[float, ...] = ()) -> Count:
    return count([slots], TEN, until=at(until), blows=[at(b) for b in blows])


ALL = tuple(a_slot(s) for s in (0, 10, 20, 30, 40))


def test_a_beat_that_is_kept_is_all_served() -> None:
    found = counted(*ALL)

    assert (found.served, found.lost, found.merged, found.twice, found.drifted, found.late) == (5, 0, 0, 0, 0, [])


def test_a_moment_that_nobody_wrote_down_is_lost_also_at_the_end() -> None:
    assert counted(*ALL[:2], *ALL[3:]).lost == 1
    assert counted(*ALL[:3]).lost == 2


def test_a_moment_that_passed_before_the_run_for_the_one_before_had_begun_is_merged_and_not_lost() -> None:
    late = a_slot(10, 32)

    found = counted(ALL[0], late, ALL[4])

    assert (found.merged, found.lost) == (2, 0)
    assert found.late == [late]


def test_a_moment_without_a_run_that_ended_is_lost() -> None:
    unserved = Slot(at(20), None)

    assert counted(*ALL[:2], unserved, *ALL[3:]).lost == 1


def test_lateness_is_excused_for_half_a_minute_after_a_blow_and_for_an_interval_besides() -> None:
    late = a_slot(10, 50)
    slots = (ALL[0], late)

    assert counted(*slots, blows=(9,)).late == [late]  # 11 s besides
    assert counted(*slots, blows=(16,)).taken_over == [late]
    assert counted(*slots, blows=(16, 17, 18)).taken_over == [late]
    assert counted(*slots, blows=(40,)).late == [late]  # it came when it was late already
    assert counted(*slots, blows=(5, 40)).taken_over == [late]
    assert counted(*slots, blows=(-40, 56)).late == [late]
    assert counted(ALL[0], a_slot(10, 20), *ALL[2:]).late == []


def test_a_moment_that_calls_twice_and_one_off_the_beat_are_seen() -> None:
    assert counted(*ALL, ALL[4]).twice == 1
    assert counted(*ALL[:4], a_slot(41), until=41).drifted == 1


def test_blows_fall_apart_from_each_other_before_the_calm_and_are_of_every_kind() -> None:
    plan = Plan(agents=1, restless=0, rounds=120, blows=20)

    drawn = plan.drawn()

    assert len(drawn) == 20
    assert {b.blow for b in drawn} == set(Blow)
    assert {b.replica for b in drawn} == {0, 1}
    moments = [b.after_s for b in drawn]
    assert all(b - a > 30 for a, b in pairwise(moments))
    assert moments[-1] < 900
    assert drawn == plan.drawn()
