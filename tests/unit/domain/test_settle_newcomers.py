"""Machines with our label that the ledger does not know: adopted where there is room, ended where there is none."""

from dataclasses import replace
from decimal import Decimal

import pytest

from fleetagent.domain.fleet import Fleet, Instance, Rented
from fleetagent.domain.settle import SettleLimits, Settlement, settle
from support.fleets import NOW, PREFIX, an_instance, as_listed

PROVING = an_instance("1")


def settled(known: list[Instance], listed: list[Rented], limits: SettleLimits | None = None) -> Settlement:
    """The ledger compared with this list now."""
    return settle(known, listed, NOW, limits or SettleLimits(), label_prefix=PREFIX)


STRANGER = as_listed(an_instance("5", label="fa/0123456789ab/unheard"))


def test_a_machine_with_our_label_that_the_ledger_lacks_is_adopted() -> None:
    found = settled([PROVING], [as_listed(PROVING), STRANGER])

    assert [c.adopted for c in found.changes] == [STRANGER]
    assert isinstance(found.fleet, Fleet)
    assert [i.instance_id for i in found.fleet.instances] == ["1", "5"]
    assert found.doomed == ()


@pytest.mark.parametrize(
    ("limits", "because"),
    [
        (SettleLimits(max_instances=2), None),
        (SettleLimits(max_instances=1), "1 instances are the limit"),
        (SettleLimits(fleet_usd_per_hour=Decimal("1.00")), None),
        (SettleLimits(fleet_usd_per_hour=Decimal("0.99")), "would pass the budget of 0.99"),
        (SettleLimits(fleet_usd_per_day=Decimal("12.00")), None),
        (SettleLimits(fleet_usd_per_day=Decimal("11.99")), "12.00 USD by midnight would pass the day's budget"),
        (SettleLimits(fleet_usd_per_day=Decimal("12.00"), usd_spent_today=Decimal("0.01")), "12.01 USD by midnight"),
        (SettleLimits(hosts_excluded={"m4"}), None),
        (SettleLimits(hosts_excluded={"m5"}), "its host m5 has failed lately"),
    ],
)
def test_a_machine_that_turns_up_late_stays_only_where_there_is_room(limits: SettleLimits, because: str | None) -> None:
    found = settled([PROVING], [as_listed(PROVING), STRANGER], limits=limits)

    assert len(found.doomed) == (because is not None)
    assert all(because in d.because for d in found.doomed if because)


def test_only_those_that_stay_take_up_room() -> None:
    small, big = (replace(STRANGER, provider_id=n, label=f"fa/0123456789ab/{n}") for n in ("6", "7"))
    rows = [as_listed(PROVING), replace(small, usd_per_hour=Decimal("2.00")), big]

    found = settled([PROVING], rows, limits=SettleLimits(fleet_usd_per_hour=Decimal("1.00")))

    assert [d.instance.instance_id for d in found.doomed] == ["6"]


def test_a_second_machine_for_one_order_is_adopted_under_its_own_name_and_ended() -> None:
    twin = as_listed(PROVING, provider_id="2")

    found = settled([PROVING], [as_listed(PROVING), twin])

    assert [c.instance.label for c in found.changes] == [f"{PROVING.label}#2"]
    assert [d.because for d in found.doomed] == ["not in the ledger, and it is a second machine for one order"]


def test_a_machine_that_turns_up_without_a_price_does_not_stay() -> None:
    found = settled([PROVING], [as_listed(PROVING), replace(STRANGER, usd_per_hour=None)])

    assert [d.because for d in found.doomed] == ["not in the ledger, and nobody knows what it costs"]


@pytest.mark.parametrize(
    "label",
    [
        None,
        "",
        "by hand",
        PREFIX,
        "fa/another0hash/unheard",
        "FA/0123456789AB/unheard",
        f" {PREFIX}unheard",
        f"{PREFIX}unheard ",
        f"{PREFIX}un heard",
        f"{PREFIX}un/heard",
        f"{PREFIX}unheard#2",
        f"?{PREFIX}unheard",
        f"{PREFIX}{'x' * 65}",
        f"{PREFIX}unheard\n",
        f"x{PREFIX}unheard",
    ],
)
def test_what_does_not_carry_our_label_exactly_is_none_of_our_business(label: str | None) -> None:
    found = settled([PROVING], [as_listed(PROVING), replace(STRANGER, label=label)])

    assert (found.changes, found.doomed, found.destroy_again) == ((), (), ())


def test_a_machine_that_is_adopted_while_it_runs_is_no_further_news() -> None:
    adopted = settled([], [STRANGER]).changes[0].instance

    assert settled([adopted], [STRANGER]).changes == ()
