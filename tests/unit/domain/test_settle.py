"""What a complete list of machines says about the ledger: nothing is taken for gone too early, none is overlooked."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from fleetagent.domain.fleet import Fleet, FleetUnknown, Instance, MarketStatus, Phase, Rented
from fleetagent.domain.settle import SettleLimits, Settlement, settle
from support.fleets import NOW, PREFIX, ago, an_instance, as_listed

LIMITS = SettleLimits(phases={Phase.LOADING: timedelta(minutes=15)})
INTENT = an_instance(None, Phase.REQUESTED, requested_at=ago(minutes=6))
PROVING = an_instance("1")
LOADING = an_instance("1", Phase.LOADING, phase_since=ago(minutes=5))
STOPPING = an_instance("1", Phase.STOPPING, destroy_asked_at=ago(seconds=5))


def settled(known: list[Instance], listed: list[Rented], *, limits: SettleLimits = LIMITS, **said: Any) -> Settlement:
    """The ledger compared with this list now."""
    return settle(known, listed, NOW, limits, label_prefix=PREFIX, **said)


def phases(found: Settlement) -> list[Phase]:
    """Where the changed instances stand now."""
    return [c.instance.phase for c in found.changes]


def test_where_ledger_and_list_agree_nothing_is_written() -> None:
    found = settled([PROVING], [as_listed(PROVING)])

    assert found == Settlement((), (), (), (), Fleet((PROVING,), NOW))


def test_an_intent_that_the_list_shows_by_its_label_is_a_machine() -> None:
    found = settled([INTENT], [as_listed(INTENT, provider_id="77", status=MarketStatus.LOADING)])

    instance = found.changes[0].instance
    assert (instance.provider_id, instance.phase, instance.phase_since) == ("77", Phase.LOADING, NOW)
    assert found.fleet == Fleet((instance,), NOW)


def test_a_machine_is_known_by_its_id_when_somebody_changed_its_label() -> None:
    found = settled([PROVING], [as_listed(PROVING, label="somebody's own words")])

    assert found.changes == ()
    assert found.fleet == Fleet((PROVING,), NOW)


@pytest.mark.parametrize(
    ("lists", "minutes", "phase"),
    [(2, 5, Phase.FAILED), (1, 5, Phase.REQUESTED), (2, 4.99, Phase.REQUESTED), (0, 60, Phase.REQUESTED)],
    ids=["three lists over five minutes", "only two lists", "only a little less than that", "only one list"],
)
def test_an_intent_is_given_up_only_after_three_lists_and_the_settling_time(
    lists: int, minutes: float, phase: Phase
) -> None:
    intent = an_instance(None, Phase.REQUESTED, absent_count=lists, absent_since=ago(minutes=minutes))

    found = settled([intent], [])

    assert phases(found) == [phase]
    assert found.changes[0].never_appeared is (phase is Phase.FAILED)
    assert isinstance(found.fleet, Fleet)
    assert len(found.fleet.instances) == (phase is not Phase.FAILED)


def test_a_list_that_lacks_a_machine_is_unknown_and_never_an_empty_fleet() -> None:
    found = settled([PROVING], [])

    assert isinstance(found.fleet, FleetUnknown)
    assert "lacks 1" in found.fleet.because
    assert [i.instance_id for i in found.ask] == ["1"]
    assert phases(found) == [Phase.PROVING]


def test_who_got_no_answer_is_asked_again_and_who_got_one_is_not() -> None:
    found = settled([PROVING, an_instance("2"), an_instance("3")], [], said_gone={"2"}, said_there={"3"})

    assert [i.instance_id for i in found.ask] == ["1"]


@pytest.mark.parametrize(
    ("confirmed", "said", "phase"),
    [
        (None, "gone", Phase.PROVING),
        (ago(seconds=59), "gone", Phase.PROVING),
        (ago(seconds=60), "gone", Phase.FAILED),
        (ago(seconds=60), "there", Phase.PROVING),
        (ago(hours=1), "nothing", Phase.PROVING),
    ],
    ids=["said once", "said twice too soon", "said twice a minute apart", "it is there after all", "no answer"],
)
def test_a_missing_machine_is_lost_only_when_the_market_says_so_twice(confirmed: Any, said: str, phase: Phase) -> None:
    missing = an_instance("1", confirmed_gone_at=confirmed)
    gone, there = ({"1"} if said == word else set[str]() for word in ("gone", "there"))

    found = settled([missing], [], said_gone=gone, said_there=there)

    assert phases(found) == [phase]
    assert isinstance(found.fleet, Fleet if phase is Phase.FAILED else FleetUnknown)
    confirmed_now = found.changes[0].instance.confirmed_gone_at
    assert (confirmed_now is None) is (said == "there")


@pytest.mark.parametrize(
    ("seconds", "known"),
    [(119, True), (120, False)],
    ids=["reads lag behind creates", "but not for ever"],
)
def test_a_new_machine_may_be_missing_for_a_while(seconds: float, known: bool) -> None:  # noqa: FBT001
    new = an_instance("1", Phase.REQUESTED, requested_at=ago(seconds=seconds), market_status=None)

    assert isinstance(settled([new], []).fleet, Fleet) is known


@pytest.mark.parametrize(
    ("machine", "listed", "phase", "asked_again"),
    [
        (STOPPING, False, Phase.GONE, False),
        (STOPPING, True, Phase.STOPPING, False),
        (an_instance("1", Phase.STOPPING, destroy_asked_at=ago(seconds=21)), True, Phase.STOPPING, True),
        (an_instance("1", Phase.STOPPING, destroy_asked_at=ago(seconds=20)), True, Phase.STOPPING, False),
        (replace(STOPPING, market_status=None, requested_at=ago(seconds=119)), False, Phase.STOPPING, False),
        (replace(STOPPING, market_status=None, requested_at=ago(seconds=120)), False, Phase.GONE, False),
        (replace(STOPPING, requested_at=ago(seconds=119)), False, Phase.GONE, False),
        (an_instance("1", Phase.STOPPING), False, Phase.STOPPING, True),
        (an_instance("1", Phase.STOPPING), True, Phase.STOPPING, True),
    ],
    ids=[
        "gone",
        "still there",
        "asked long ago",
        "asked a while ago",
        "so new that no list has shown it",
        "never listed",
        "listed before",
        "never asked and not listed",
        "never asked",
    ],
)
def test_a_stopped_machine_is_gone_once_the_market_was_told_and_lists_it_no_more(
    machine: Instance,
    listed: bool,  # noqa: FBT001 - a column of the table
    phase: Phase,
    asked_again: bool,  # noqa: FBT001
) -> None:
    found = settled([machine], [as_listed(machine)] if listed else [])

    after = phases(found) or [machine.phase]
    assert after == [phase]
    assert bool(found.destroy_again) is asked_again
    assert isinstance(found.fleet, Fleet)


@pytest.mark.parametrize(
    ("machine", "changes", "because"),
    [
        (an_instance("1", Phase.LOADING, phase_since=ago(minutes=15)), {}, None),
        (an_instance("1", Phase.LOADING, phase_since=ago(minutes=15, seconds=1)), {}, "longer than 15 min in phase"),
        (PROVING, {"status": MarketStatus.STOPPED}, "stopped by the market or its host"),
        (PROVING, {"status": MarketStatus.OFFLINE}, None),
        (LOADING, {"gpu_name": "RTX 3060"}, "it is 1x RTX 3060, not what was ordered"),
        (LOADING, {"gpu_name": "", "num_gpus": 1}, None),
        (LOADING, {"gpu_name": "RTX 3060", "num_gpus": 0}, None),
        (PROVING, {"usd_per_hour": "5.00"}, None),
        (an_instance("1", Phase.REQUESTED, market_status=None), {"usd_per_hour": "0.535"}, None),
        (an_instance("1", Phase.REQUESTED, market_status=None), {"usd_per_hour": "0.536"}, "ordered at 0.5000"),
        (an_instance("1", Phase.REGISTERED, failure="too slow"), {}, "too slow"),
        (an_instance("1", Phase.STOPPING, failure="too slow"), {"status": MarketStatus.STOPPED}, None),
    ],
    ids=[
        "the last second of its phase",
        "a second too long",
        "its host stopped it",
        "its host is offline",
        "other hardware",
        "a GPU that is not told yet",
        "a number that is not told yet",
        "a price that rose later",
        "a price within rounding",
        "a bill above the order",
        "its benchmark failed",
        "it stops already",
    ],
)
def test_code_ends_what_can_never_be_of_use(machine: Instance, changes: dict[str, Any], because: str | None) -> None:
    found = settled([machine], [as_listed(machine, **changes)])

    assert [because in d.because for d in found.doomed if because] == ([True] if because else [])
    assert len(found.doomed) == (because is not None)


def test_the_price_that_the_market_bills_is_the_one_that_counts() -> None:
    found = settled([PROVING], [as_listed(PROVING, usd_per_hour="0.61")])

    assert found.changes[0].instance.usd_per_hour == Decimal("0.61")


@pytest.mark.parametrize(
    ("credit", "blamed"), [(False, True), (True, False)], ids=["by its host", "for want of credit"]
)
def test_a_host_is_not_blamed_when_the_market_stops_everything_for_want_of_money(
    credit: bool,  # noqa: FBT001 - a column of the table
    blamed: bool,  # noqa: FBT001
) -> None:
    stopped = as_listed(PROVING, status=MarketStatus.STOPPED)

    found = settled([PROVING], [stopped], limits=replace(LIMITS, out_of_credit=credit))

    assert [d.host_failed for d in found.doomed] == [blamed]


NAMED = an_instance("77", Phase.REQUESTED, market_status=None, requested_at=ago(seconds=10))
"""What a launch was answered with, before any list has shown it."""


@pytest.mark.parametrize(
    ("row", "ours"),
    [
        ({}, True),
        ({"label": None}, True),
        ({"label": None, "machine_id": ""}, True),
        ({"label": None, "machine_id": "another"}, False),
        ({"label": "by hand"}, False),
        ({"label": f"{PREFIX}another"}, False),
    ],
    ids=["its label", "no label yet", "nothing at all yet", "another host", "by hand", "another one of ours"],
)
def test_an_id_that_a_launch_was_answered_with_is_proved_by_the_label(row: dict[str, Any], ours: bool) -> None:  # noqa: FBT001
    found = settled([NAMED], [as_listed(NAMED, **row)])

    assert isinstance(found.fleet, Fleet)
    mine = next(i for i in found.fleet.instances if i.label == NAMED.label)
    assert (mine.provider_id, mine.phase) == (("77", Phase.LOADING) if ours else (None, Phase.REQUESTED))


def test_an_order_that_was_answered_with_a_wrong_id_is_found_by_its_label() -> None:
    foreign, mine = as_listed(NAMED, label="by hand"), as_listed(NAMED, provider_id="78")

    found = settled([NAMED], [foreign, mine])

    assert [c.instance.provider_id for c in found.changes] == ["78"]
    assert (found.doomed, found.destroy_again) == ((), ())


def test_an_order_that_was_answered_with_a_wrong_id_and_never_appears_is_given_up() -> None:
    waited = replace(NAMED, absent_count=2, absent_since=ago(minutes=5), requested_at=ago(minutes=6))

    found = settled([waited], [as_listed(waited, label="by hand")])

    assert phases(found) == [Phase.FAILED]
    assert found.changes[0].never_appeared
    assert found.doomed == ()


@pytest.mark.parametrize(
    ("lists", "minutes", "phase"), [(2, 5, Phase.GONE), (1, 5, Phase.STOPPING), (2, 4.9, Phase.STOPPING)]
)
@pytest.mark.parametrize("provider_id", ["77", None])
def test_what_was_stopped_before_anybody_saw_it_is_gone_once_it_never_appears(
    lists: int, minutes: float, phase: Phase, provider_id: str | None
) -> None:
    machine = an_instance(provider_id, Phase.STOPPING, market_status=None, requested_at=ago(minutes=30))
    waits = replace(machine, absent_count=lists, absent_since=ago(minutes=minutes))

    found = settled([waits], [])

    assert phases(found) == [phase]
    assert found.changes[0].never_appeared is (phase is Phase.GONE)
    assert isinstance(found.fleet, Fleet)


def test_what_was_stopped_before_anybody_saw_it_is_ended_when_it_appears() -> None:
    machine = an_instance("77", Phase.STOPPING, market_status=None)

    found = settled([machine], [as_listed(machine)])

    assert [(i.provider_id, i.market_status) for i in found.destroy_again] == [("77", MarketStatus.RUNNING)]


def test_a_machine_adopted_from_a_row_with_gaps_is_what_it_is_once_the_gaps_are_filled() -> None:
    """Nobody ordered it as something else."""
    adopted = an_instance("1", Phase.LOADING, gpu_name="", num_gpus=0, phase_since=ago(seconds=30))
    row = as_listed(adopted, gpu_name="RTX 5090", num_gpus=1)

    assert settled([adopted], [row]).doomed == ()


def test_a_machine_that_was_measured_is_not_ended_when_the_market_renames_its_gpu() -> None:
    assert settled([PROVING], [as_listed(PROVING, gpu_name="GeForce RTX 5090")]).doomed == ()
