"""What a list means after our memory was set back, or before reads have caught up with our own calls."""

from datetime import timedelta

import pytest

from fleetagent.domain.fleet import FleetUnknown, MarketStatus, Phase
from fleetagent.domain.settle import SettleLimits, settle
from support.fleets import NOW, PREFIX, ago, an_instance, as_listed


def test_machines_that_may_be_gone_take_no_room_from_those_that_are_there() -> None:
    """Else a database from yesterday would have today's fleet destroyed."""
    of_yesterday = [an_instance(f"800{n}") for n in range(3)]
    of_today = [as_listed(an_instance(f"900{n}")) for n in range(3)]

    found = settle(of_yesterday, of_today, NOW, SettleLimits(max_instances=3), label_prefix=PREFIX)

    assert found.doomed == ()
    assert [c.adopted for c in found.changes if c.adopted] == of_today
    assert isinstance(found.fleet, FleetUnknown)


@pytest.mark.parametrize(
    ("status", "seconds", "phase"),
    [(MarketStatus.LOADING, 0, Phase.GONE), (None, 0, Phase.STOPPING), (None, 110, Phase.GONE)],
    ids=["it was listed before", "no list has shown it yet", "every list would have shown it by now"],
)
def test_a_destroyed_machine_is_gone_only_if_the_list_could_have_shown_it(
    status: MarketStatus | None, seconds: int, phase: Phase
) -> None:
    """A destroy that came before the machine was to be seen may have missed it."""
    asked = {"requested_at": ago(seconds=10), "destroy_asked_at": ago(seconds=5)}
    machine = an_instance("9001", Phase.STOPPING, market_status=status, **asked)

    found = settle([machine], [], NOW + timedelta(seconds=seconds), SettleLimits(), label_prefix=PREFIX)

    assert ([c.instance.phase for c in found.changes] or [machine.phase]) == [phase]


def test_a_destroy_that_may_have_missed_its_machine_is_asked_for_again() -> None:
    asked = {"requested_at": ago(seconds=50), "destroy_asked_at": ago(seconds=21)}
    machine = an_instance("9001", Phase.STOPPING, market_status=None, **asked)

    assert settle([machine], [], NOW, SettleLimits(), label_prefix=PREFIX).destroy_again == (machine,)
