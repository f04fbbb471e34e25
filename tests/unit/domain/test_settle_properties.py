"""Whatever ledger and list hold: no machine that bills is out of sight, no stranger's is touched, none ends unasked."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleetagent.agent.effects import _is_proved_ours
from fleetagent.domain.fleet import LIVE, Fleet, FleetUnknown, Instance, MarketStatus, Phase, Rented
from fleetagent.domain.labels import is_ours
from fleetagent.domain.settle import SettleLimits, Settlement, settle
from support.fleets import NOW, PREFIX, ago, an_instance, as_listed

NUMBERS = st.integers(1, 7).map(str)
OUR_LABELS = NUMBERS.map(lambda number: f"{PREFIX}{number}")
THEIR_LABELS = st.one_of(
    st.none(),
    st.sampled_from(["", "by hand", PREFIX, f"{PREFIX}1 ", f"{PREFIX.upper()}1", "fa/ffffffffffff/1", f"?{PREFIX}1"]),
    st.text(max_size=30),
    OUR_LABELS.map(lambda label: f"{label}#2"),
)

INSTANCES = st.builds(
    an_instance,
    st.one_of(NUMBERS, st.none()),
    st.sampled_from(sorted(LIVE)),
    label=OUR_LABELS,
    machine_id=NUMBERS.map(lambda number: f"m{number}"),
    market_status=st.sampled_from([None, *MarketStatus]),
    destroy_asked_at=st.sampled_from([None, ago(seconds=5), ago(seconds=30)]),
    requested_at=st.sampled_from([ago(seconds=30), ago(hours=1)]),
    phase_since=st.sampled_from([ago(seconds=30), ago(hours=9)]),
    absent_count=st.integers(0, 5),
    absent_since=st.sampled_from([None, ago(seconds=30), ago(hours=1)]),
    confirmed_gone_at=st.sampled_from([None, ago(seconds=30), ago(hours=1)]),
    failure=st.sampled_from([None, "too slow"]),
)
INSTANCES = INSTANCES.map(lambda i: i if i.provider_id else replace(i, market_status=None))
LEDGERS = st.lists(INSTANCES, unique_by=(lambda i: i.label, lambda i: i.provider_id or i.label), max_size=6)
ROWS = st.builds(
    lambda number, label, **row: as_listed(an_instance(number), label=label, **row),
    NUMBERS,
    st.one_of(OUR_LABELS, THEIR_LABELS),
    status=st.sampled_from(MarketStatus),
    machine_id=st.one_of(NUMBERS.map(lambda number: f"m{number}"), st.just("")),
    gpu_name=st.sampled_from(["RTX 5090", "RTX 4090", ""]),
    usd_per_hour=st.sampled_from([None, Decimal("0.50"), Decimal("9.99")]),
)
LISTS = st.lists(ROWS, unique_by=lambda r: r.provider_id, max_size=7)
LIMITS = st.builds(
    SettleLimits,
    phases=st.just(dict.fromkeys((Phase.LOADING, Phase.REGISTERED), SettleLimits().settling)),
    max_instances=st.one_of(st.none(), st.integers(0, 4)),
    fleet_usd_per_hour=st.sampled_from([None, Decimal(1)]),
    fleet_usd_per_day=st.sampled_from([None, Decimal(20)]),
    hosts_excluded=st.sets(NUMBERS.map(lambda number: f"m{number}"), max_size=3),
)
WORLDS = given(LEDGERS, LISTS, LIMITS, st.sets(NUMBERS), st.sets(NUMBERS))
ENDED = {Phase.GONE, Phase.FAILED}


def compared(known: list[Instance], listed: list[Rented], limits: SettleLimits, **said: Any) -> Settlement:
    return settle(known, listed, NOW, limits, label_prefix=PREFIX, **said)


def fleet_of(found: Settlement) -> Fleet:
    fleet = found.fleet.last_known if isinstance(found.fleet, FleetUnknown) else found.fleet
    assert fleet is not None
    return fleet


@WORLDS
def test_nothing_is_asked_to_be_destroyed_that_is_not_proved_ours(
    known: list[Instance], listed: list[Rented], limits: SettleLimits, gone: set[str], there: set[str]
) -> None:
    found = compared(known, listed, limits, said_gone=gone, said_there=there)
    rows, seen_before = {r.provider_id: r for r in listed}, {i.provider_id for i in known if i.market_status}

    ending = [*(d.instance for d in found.doomed), *found.destroy_again]
    for instance in filter(_is_proved_ours, ending):
        row = rows.get(instance.provider_id or "")
        if instance.provider_id in seen_before:
            continue
        assert row is not None
        lags = row.label is None and row.machine_id in {instance.machine_id, ""}
        assert is_ours(row.label, PREFIX) or lags


@WORLDS
def test_strangers_are_neither_adopted_nor_counted(
    known: list[Instance], listed: list[Rented], limits: SettleLimits, gone: set[str], there: set[str]
) -> None:
    mine = [r for r in listed if is_ours(r.label, PREFIX) or r.provider_id in {i.provider_id for i in known}]
    found = compared(known, listed, limits, said_gone=gone, said_there=there)

    assert found == compared(known, mine, limits, said_gone=gone, said_there=there)
    assert all(is_ours(c.adopted.label, PREFIX) for c in found.changes if c.adopted)


@WORLDS
def test_absence_alone_ends_nothing_that_is_held_for_live(
    known: list[Instance], listed: list[Rented], limits: SettleLimits, gone: set[str], there: set[str]
) -> None:
    del gone
    found = compared(known, listed, limits, said_there=there)
    before = {i.label: i for i in known}

    for change in found.changes:
        old = before.get(change.instance.label)
        if old is None or change.instance.phase not in ENDED:
            continue
        settled_long_ago = old.absent_count >= 2 and old.absent_since == ago(hours=1)
        assert (old.phase is Phase.STOPPING and (old.destroy_asked_at or settled_long_ago)) or (
            old.market_status is None and settled_long_ago
        )


@WORLDS
def test_every_row_of_ours_is_in_the_fleet_exactly_once(
    known: list[Instance], listed: list[Rented], limits: SettleLimits, gone: set[str], there: set[str]
) -> None:
    found = compared(known, listed, limits, said_gone=gone, said_there=there)
    fleet = fleet_of(found)

    ids = Counter(i.provider_id for i in fleet.instances if i.provider_id)
    labels = Counter(i.label for i in fleet.instances)
    assert not [i for i, times in (ids + labels).items() if times > 1]
    assert {r.provider_id for r in listed if is_ours(r.label, PREFIX)} <= set(ids)
    written = Counter(c.instance.label for c in found.changes)
    assert not [label for label, times in written.items() if times > 1]


@WORLDS
def test_what_was_settled_once_is_no_news_at_the_next_look(
    known: list[Instance], listed: list[Rented], limits: SettleLimits, gone: set[str], there: set[str]
) -> None:
    """A list that stays as it is calls for no second run."""
    first = compared(known, listed, limits, said_gone=gone, said_there=there)
    doomed = {d.instance.label for d in first.doomed}
    after = [replace(i, phase=Phase.STOPPING) if i.label in doomed else i for i in fleet_of(first).instances]
    second = compared(after, listed, limits)

    assert not [c.news for c in second.changes if c.news and "never appeared" not in c.news]


@WORLDS
def test_a_live_machine_that_is_missing_makes_the_fleet_unknown(
    known: list[Instance], listed: list[Rented], limits: SettleLimits, gone: set[str], there: set[str]
) -> None:
    found = compared(known, listed, limits, said_gone=gone, said_there=there)
    ids = {r.provider_id for r in listed}
    seen_live = [i for i in known if i.market_status is not None and i.phase is not Phase.STOPPING]
    ended = {c.instance.label for c in found.changes if c.instance.phase in ENDED}
    missing = [i for i in seen_live if i.provider_id and i.provider_id not in ids and i.label not in ended]

    assert not missing or isinstance(found.fleet, FleetUnknown)
