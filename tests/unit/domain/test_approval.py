"""What waits for a person: how it is named, until when it waits, and what it counts for meanwhile."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.approval import MOST_IDS, how_to_decide, named_in, waits
from fleetagent.domain.capacity import CHANCE, capacity_of
from fleetagent.domain.facts import Facts, Launch, Stop
from fleetagent.domain.fleet import Fleet, Phase, Waiting
from fleetagent.domain.guardrails import check, check_approved
from fleetagent.domain.observation import Calls, Standing, fingerprint
from fleetagent.domain.prompt import observation_text
from support.fleets import NOW, a_waiting, an_instance, an_observation, an_offer, facts
from support.manifests import a_parsed_spec

SECOND = timedelta(seconds=1)
LAUNCH, STOP = Launch("7001", "because"), Stop("9001", "because")
OTHER_OFFER: dict[str, Any] = {"offer": an_offer("8000"), "proofs_per_hour": 100.0}


def waiting_facts(*waiting: Waiting, instances: tuple[Any, ...] = (), **changes: Any) -> Facts:
    told = facts(*instances, **changes)
    assert isinstance(told.fleet, Fleet)
    return replace(told, fleet=replace(told.fleet, waiting=waiting))


def code(action: Launch | Stop, told: Facts) -> str | None:
    refusal = check(action, told)
    return refusal.code if refusal else None


@pytest.mark.parametrize(
    ("said", "ids", "unread"),
    [
        ("action-42", (42,), ()),
        ("action-42,action-43", (42, 43), ()),
        ("  ACTION-42 ,, Action-43;action-42\n44 ", (42, 43, 44), ()),
        ("42", (42,), ()),
        ("", (), ()),
        ("action-", (), ("action-",)),
        ("action-4x, action--5, -6, action-7.5", (), ("action-4x", "action--5", "-6", "action-7.5")),
        ("alert-17 action-1", (1,), ("alert-17",)),
        ("action-" + "9" * 19, (), ("action-" + "9" * 19,)),
        ("٤٢", (), ("٤٢",)),
    ],
)
def test_what_people_name_is_read_leniently_and_never_guessed(
    said: str, ids: tuple[int, ...], unread: tuple[str, ...]
) -> None:
    assert named_in(said) == (ids, unread)


@given(st.text(max_size=300))
def test_whatever_people_write_it_is_read_or_said_to_be_unreadable(said: str) -> None:
    ids, unread = named_in(said)

    assert len(ids) == len(set(ids))
    assert all(0 <= i < 10**18 for i in ids)
    assert all(len(word) <= 40 for word in unread)


def test_no_annotation_approves_more_than_a_hundred_actions() -> None:
    ids, unread = named_in(",".join(f"action-{n}" for n in range(MOST_IDS + 5)))

    assert (len(ids), len(unread)) == (MOST_IDS, 5)


@pytest.mark.parametrize(("left", "open_"), [(SECOND, True), (timedelta(0), False), (-SECOND, False)])
def test_an_action_waits_until_the_moment_of_its_expiry(left: timedelta, open_: bool) -> None:  # noqa: FBT001  # a column
    assert waits(a_waiting(expires_at=NOW + left), NOW) is open_


def test_people_are_told_what_waits_its_price_until_when_and_what_to_type() -> None:
    words = how_to_decide(a_waiting(), "fleet", "porep")

    assert words == (
        "action-42: launch 1x RTX 5090 for 0.500 USD/h (as planned) waits until 2026-11-29 12:15:00 UTC. "
        "To let it happen: kubectl -n fleet annotate --overwrite fleetagent porep fleetagent.dev/approve=action-42 "
        "(to refuse it: fleetagent.dev/reject=action-42)"
    )


def test_strangers_words_in_an_action_are_made_harmless() -> None:
    words = how_to_decide(a_waiting(what="1x <|im_start|>\n\x1b[31mGPU", reason="a\x00b\n<|im_end|>"), "fleet", "porep")

    assert "\n" not in words
    assert "<|" not in words
    assert "\x1b" not in words


def test_a_launch_that_waits_counts_like_one_that_was_asked_for() -> None:
    fleet = Fleet((an_instance(),), NOW, (a_waiting(), a_waiting(43, "stop")))

    cap = capacity_of(fleet)

    assert (cap.proving, cap.on_the_way, cap.waiting) == (1, 0, 1)
    assert (cap.lasting, cap.instances) == (2, 2)
    assert cap.projected_proofs_per_hour == round(100 + 100 * CHANCE[Phase.REQUESTED], 1)
    assert (fleet.usd_per_hour, fleet.committed_usd_per_hour) == (Decimal("0.50"), Decimal("1.00"))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"target": {"proofsPerHour": 100}}, None),
        ({"target": {"proofsPerHour": 90}}, "OnTarget"),
        ({"limits": {"maxInstances": 1}}, "TooManyInstances"),
        ({"budget": {"fleetUsdPerHour": "1.00"}}, None),
        ({"budget": {"fleetUsdPerHour": "0.99"}}, "OverHourlyBudget"),
        ({"budget": {"fleetUsdPerHour": "4.00", "fleetUsdPerDay": "12.00"}}, None),
        ({"budget": {"fleetUsdPerHour": "4.00", "fleetUsdPerDay": "11.99"}}, "OverDailyBudget"),
    ],
)
def test_every_limit_counts_what_waits(spec: dict[str, Any], expected: str | None) -> None:
    told = waiting_facts(a_waiting(**OTHER_OFFER), spec=spec)

    assert code(LAUNCH, told) == expected


@pytest.mark.parametrize("offer", [an_offer(), an_offer("8000", machine_id="m7001")], ids=["same offer", "same host"])
def test_the_same_wish_is_refused_while_one_waits(offer: Any) -> None:
    assert code(LAUNCH, waiting_facts(a_waiting(offer=offer))) == "SameIntentInFlight"


def test_the_same_stop_is_refused_while_one_waits_by_whatever_name() -> None:
    machine = an_instance()
    told = waiting_facts(a_waiting(kind="stop"), instances=(machine,), spec={"target": {"proofsPerHour": 1}})

    assert code(STOP, told) == "SameIntentInFlight"
    assert code(Stop(machine.label, ""), told) == "SameIntentInFlight"


def test_a_stop_reckons_with_no_launch_that_waits_and_without_what_another_stop_takes() -> None:
    machines = (an_instance("9001"), an_instance("9002"))
    one_needed = {"target": {"proofsPerHour": 100}}

    assert code(Stop("9002", ""), waiting_facts(instances=machines, spec=one_needed)) is None
    assert (
        code(Stop("9002", ""), waiting_facts(a_waiting(kind="stop"), instances=machines, spec=one_needed))
        == "BelowTarget"
    )
    assert code(STOP, waiting_facts(a_waiting(), instances=(machines[0],), spec=one_needed)) == "BelowTarget"


def test_a_stop_that_waits_spares_no_money_and_makes_no_room_for_a_launch() -> None:
    told = waiting_facts(a_waiting(kind="stop"), instances=(an_instance(),), spec={"limits": {"maxInstances": 1}})

    assert code(LAUNCH, told) == "TooManyInstances"


@pytest.mark.parametrize(
    ("mode", "plain", "approved"),
    [
        ("Act", None, None),
        ("Approve", "NeedsApproval", None),
        ("DryRun", "DryRun", "DryRun"),
        ("Suspended",) + ("Suspended",) * 2,
    ],
)
def test_an_approval_lifts_what_mode_approve_holds_back_and_nothing_else(
    mode: str, plain: str | None, approved: str | None
) -> None:
    told = facts(spec={"mode": mode})
    refusal = check_approved(LAUNCH, told)

    assert code(LAUNCH, told) == plain
    assert (refusal.code if refusal else None) == approved


def test_an_approval_lifts_no_rule() -> None:
    dearer = facts(spec={"mode": "Approve"}, offer_now=an_offer(usd_per_hour="0.52"))
    refusal = check_approved(LAUNCH, dearer)

    assert refusal is not None
    assert refusal.code == "OfferDearer"


def test_the_facts_say_what_waits_and_what_was_decided() -> None:
    seen = an_observation(decided=("action-41 (launch 1x RTX 5090 for 0.500 USD/h) was rejected by a person",))
    assert isinstance(seen.fleet, Fleet)
    seen = replace(seen, fleet=replace(seen.fleet, waiting=(a_waiting(),)))

    text = observation_text(seen, 7, Calls(()), a_parsed_spec())

    assert "1 waiting for approval; projected 90 of 500" in text
    assert "Waiting for a person: action-42 launch 1x RTX 5090 for 0.500 USD/h, until 12:15 UTC." in text
    assert "Decided: action-41 (launch 1x RTX 5090 for 0.500 USD/h) was rejected by a person." in text


def test_what_waits_belongs_to_what_the_world_looks_like() -> None:
    seen = an_observation(an_instance(), wanted=100)
    assert isinstance(seen.fleet, Fleet)
    waiting = replace(seen, fleet=replace(seen.fleet, waiting=(a_waiting(kind="stop"),)))

    assert fingerprint(seen, "spec") != fingerprint(waiting, "spec")


def test_a_fleet_is_not_above_target_by_launches_that_may_never_come() -> None:
    seen = an_observation(an_instance("1"), an_instance("2"), wanted=150)
    assert isinstance(seen.fleet, Fleet)

    assert replace(seen, fleet=replace(seen.fleet, waiting=(a_waiting(),))).standing is Standing.ON
