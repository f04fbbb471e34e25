"""What a complete list of machines says about the ledger: nothing is taken for gone too early, none is overlooked."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from fleetagent.domain.fleet import Fleet, FleetUnknown, Instance, MarketStatus, Phase, Rented
from fleetagent.domain.settle import SettleLimits, Settlement, settle
from support.fleets import NOW, ago, an_instance, as_listed

LIMITS = SettleLimits(phases={Phase.LOADING: timedelta(minutes=15)})
INTENT = an_instance(None, Phase.REQUESTED, requested_at=ago(minutes=6))
PROVING = an_instance("1")
STOPPING = an_instance("1", Phase.STOPPING, destroy_asked_at=ago(seconds=5))


def settled(known: list[Instance], listed: list[Rented], *, limits: SettleLimits = LIMITS, **said: Any) -> Settlement:
    """The ledger compared with this list now."""
    return settle(known, listed, NOW, limits, **said)


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
        (PROVING, {"gpu_name": "RTX 3060"}, "it is 1x RTX 3060, not what was ordered"),
        (PROVING, {"gpu_name": "", "num_gpus": 1}, None),
        (PROVING, {"gpu_name": "RTX 3060", "num_gpus": 0}, None),
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
    assert found.changes[0].news is None


@pytest.mark.parametrize(
    ("was", "now_is", "news"),
    [
        (MarketStatus.RUNNING, MarketStatus.OFFLINE, "machine 1 is offline"),
        (MarketStatus.OFFLINE, MarketStatus.RUNNING, "machine 1 is back"),
        (MarketStatus.RUNNING, MarketStatus.RUNNING, None),
        (MarketStatus.LOADING, MarketStatus.RUNNING, None),
        (MarketStatus.LOADING, MarketStatus.OFFLINE, None),
    ],
)
def test_a_proving_machine_that_falls_silent_or_returns_is_news(
    was: MarketStatus, now_is: MarketStatus, news: str | None
) -> None:
    machine = an_instance("1", market_status=was)

    found = settled([machine], [as_listed(machine, status=now_is)])

    assert [c.news for c in found.changes if c.news] == ([news] if news else [])
