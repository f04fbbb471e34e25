"""When the demo may say that all is well."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest

from fleetagent.dev.facts import Facts, MarketFacts, ModelFacts
from fleetagent.dev.verdict import Best, disagreements, enough, off_target
from support.demo_facts import a_condition, a_ledger, a_machine, a_rented, an_agent, facts

LONG, SHORT = timedelta(seconds=60), timedelta(seconds=30)


def best_of(*looks: Facts) -> Best:
    best = Best()
    for look in looks:
        best.note(look)
    return best


def test_a_fleet_on_target_that_all_books_agree_on_is_well() -> None:
    assert off_target(facts(), best_of(facts()), LONG) == ()
    assert disagreements(facts()) == ()


def test_the_tolerance_belongs_to_the_target() -> None:
    assert enough(an_agent(spec={"target": {"proofsPerHour": 500, "tolerancePercent": 3}})) == 485


@pytest.mark.parametrize(
    ("conditions", "sentence"),
    [
        ([], "no condition OnTarget"),
        ([a_condition("OnTarget", "False", reason="BelowTarget", message="projected 9")], "BelowTarget.*projected 9"),
        ([a_condition("OnTarget", "Unknown", reason="FactsMissing")], "OnTarget is Unknown"),
        ([a_condition("OnTarget") | {"observedGeneration": 0}], "an older spec"),
    ],
    ids=["not said", "below", "unknown", "of an older spec"],
)
def test_a_target_that_was_not_reached_is_told(conditions: list[object], sentence: str) -> None:
    look = facts(agent=an_agent(status={"conditions": conditions}))

    (told,) = off_target(look, best_of(look), SHORT)

    assert told.startswith("the target was not reached: ")
    assert re.search(sentence, told)


@pytest.mark.parametrize(
    ("rate", "lasted", "is_told"),
    [(96.9, LONG, True), (97.0, LONG, False), (0.0, SHORT, False)],
    ids=["a tenth too little", "just enough", "too short to measure"],
)
def test_enough_must_have_been_measured_if_there_was_time(rate: float, lasted: timedelta, *, is_told: bool) -> None:
    machines = tuple(a_machine(number, measured_rate=rate) for number in (1, 2, 3))
    look = facts(ledger=a_ledger(machines=machines))

    told = off_target(look, best_of(look), lasted)

    assert any("291 are wanted" in each for each in told) is is_told


def test_what_was_measured_once_counts_although_it_is_gone_at_the_end() -> None:
    assert off_target(facts(ledger=a_ledger()), best_of(facts(), facts(ledger=a_ledger())), LONG) == ()


@pytest.mark.parametrize("phase", ["registered", "stopping"])
def test_machines_that_do_not_prove_make_nothing_whatever_their_benchmark(phase: str) -> None:
    idle = tuple(a_machine(number, phase=phase) for number in (1, 2, 3))

    assert best_of(facts(ledger=a_ledger(machines=idle))) == Best(0.0, reached=False)


def test_a_bill_above_the_budget_is_told_for_market_and_ledger() -> None:
    dear = Decimal("4.01")
    look = facts(
        ledger=a_ledger(machines=(a_machine(usd_per_hour=dear),)),
        market=MarketFacts(machines=(a_rented(usd_per_hour=dear),), creates=1),
    )

    assert off_target(look, best_of(look), SHORT) == (
        "by the market, the fleet costs 4.01 USD/h, and the budget is 4.00",
        "by the ledger, the fleet costs 4.01 USD/h, and the budget is 4.00",
    )


def test_another_agents_machines_are_not_on_this_ones_bill() -> None:
    other = a_rented(9, label="fa/000000000000/x", usd_per_hour=Decimal(9))
    look = facts(market=MarketFacts(machines=(other,), creates=1))

    assert off_target(look, best_of(facts()), SHORT) == ()


def test_a_machine_that_the_ledger_does_not_know_is_told() -> None:
    look = facts(ledger=a_ledger(machines=(a_machine(1), a_machine(2))))

    assert disagreements(look) == (
        "machine 50300003 (fa/d5cceba925a1/intent3) lives on the market and is not in the ledger",
    )


def test_a_machine_that_the_market_does_not_have_is_told() -> None:
    look = facts(market=MarketFacts(machines=(a_rented(1), a_rented(3)), creates=3))

    assert disagreements(look) == ("machine 50300002 is proving in the ledger and does not live on the market",)


def test_an_intent_without_a_known_machine_is_told() -> None:
    unknown = a_machine(4, provider_id=None, phase="requested")
    look = facts(ledger=a_ledger(machines=(*facts().own_machines, unknown), launches=4))

    assert disagreements(look) == (
        "fa/d5cceba925a1/intent4 stands in the ledger as requested, and nobody knows its machine",
    )


def test_two_machines_of_one_intent_are_told() -> None:
    twin = a_rented(3, label=a_rented(2).label)
    look = facts(market=MarketFacts(machines=(a_rented(1), a_rented(2), twin), creates=3))

    assert disagreements(look)[-1].startswith("2 machines on the market carry the label fa/d5cceba925a1/intent2")


@pytest.mark.parametrize(("creates", "is_told"), [(3, False), (4, True)], ids=["as many", "one more"])
def test_more_creates_than_launches_are_told(creates: int, *, is_told: bool) -> None:
    look = facts(market=MarketFacts(machines=tuple(map(a_rented, (1, 2, 3))), creates=creates))

    assert bool(disagreements(look)) is is_told


def test_each_rule_that_requests_to_the_model_broke_is_told() -> None:
    look = facts(model=ModelFacts(requests=9, violations={"null_content": 2}))

    (told,) = disagreements(look)

    assert told.endswith("null_content, 2 times")


def test_what_cannot_be_read_is_never_taken_for_well() -> None:
    look = facts(market=None, unreadable=("the market cannot be read: refused",))

    assert off_target(look, best_of(look), SHORT) == ("the market cannot be read: refused",)
    assert disagreements(look) == ("the market cannot be read: refused",)
