"""What a list means when the ledger's moments have not come yet: the clock was a day ahead, and was set right."""

from datetime import timedelta

from fleetagent.domain.fleet import Phase
from fleetagent.domain.settle import SettleLimits, settle
from support.fleets import NOW, PREFIX, an_instance, as_listed

TOMORROW = NOW + timedelta(days=1)
LIMITS = SettleLimits(phases={Phase.LOADING: timedelta(minutes=15)})


def test_a_machine_that_must_end_is_asked_for_again_at_once() -> None:
    machine = an_instance("1", Phase.STOPPING, destroy_asked_at=TOMORROW)

    found = settle([machine], [as_listed(machine)], NOW, LIMITS, label_prefix=PREFIX)

    assert [i.instance_id for i in found.destroy_again] == ["1"]


def test_a_machine_that_is_lost_does_not_keep_the_fleet_unknown_for_a_day() -> None:
    machine = an_instance("1", confirmed_gone_at=TOMORROW)

    first = settle([machine], [], NOW, LIMITS, label_prefix=PREFIX, said_gone={"1"}).changes[0].instance
    later = settle([first], [], NOW + timedelta(minutes=1), LIMITS, label_prefix=PREFIX, said_gone={"1"})

    assert first.confirmed_gone_at == NOW
    assert [c.instance.phase for c in later.changes] == [Phase.FAILED]


def test_a_launch_that_never_appeared_waits_for_the_settling_time_and_no_day_longer() -> None:
    intent = an_instance(None, Phase.REQUESTED, absent_count=2, absent_since=TOMORROW)

    first = settle([intent], [], NOW, LIMITS, label_prefix=PREFIX).changes[0].instance
    later = settle([first], [], NOW + timedelta(minutes=5), LIMITS, label_prefix=PREFIX)

    assert (first.phase, first.absent_since) == (Phase.REQUESTED, NOW)
    assert [c.instance.phase for c in later.changes] == [Phase.FAILED]


def test_a_machine_that_no_list_shows_is_not_on_its_way_for_a_day() -> None:
    machine = an_instance("1", Phase.REQUESTED, requested_at=TOMORROW, market_status=None)

    assert [i.instance_id for i in settle([machine], [], NOW, LIMITS, label_prefix=PREFIX).ask] == ["1"]


def test_a_phase_has_its_time_from_now_on_and_no_day_more() -> None:
    machine = an_instance("1", Phase.LOADING, phase_since=TOMORROW)
    row = as_listed(machine)

    first = settle([machine], [row], NOW, LIMITS, label_prefix=PREFIX)
    later = settle([first.changes[0].instance], [row], NOW + timedelta(minutes=16), LIMITS, label_prefix=PREFIX)

    assert first.doomed == ()
    assert [d.because for d in later.doomed] == ["longer than 15 min in phase loading"]
