from typing import Any

import pytest

from fleetagent.sim.marketplace import MarketplaceConfig
from fleetagent.sim.marketplace.clock import Clock
from fleetagent.sim.marketplace.errors import Refused
from fleetagent.sim.marketplace.market import Market

HOUR_S = 3600

EXAMPLE_FILTER: dict[str, Any] = {
    "type": "on-demand",
    "gpu_name": {"in": ["RTX 5090", "RTX 4090"]},
    "gpu_ram": {"gte": 16_000},
    "cpu_ram": {"gte": 240_000},
    "cpu_cores_effective": {"gte": 25},
    "disk_space": {"gte": 250},
    "inet_down": {"gte": 100},
    "cuda_max_good": {"gte": 13.0},
    "reliability2": {"gte": 0.97},
    "verified": {"eq": True},
    "dph_total": {"lte": 0.9},
    "allocated_storage": 250,
    "order": [["dph_total", "asc"]],
}


def a_market(**changes: Any) -> Market:
    """Its market time moves by `clock.advance` alone."""
    return Market(MarketplaceConfig(**changes), Clock(steady=lambda: 0.0, wall=lambda: 1_800_000_000.0))


@pytest.mark.parametrize("seed", [1, 7, 42, 1234])
def test_forty_to_sixty_four_offers_pass_the_example_filter_and_others_do_not(seed: int) -> None:
    market = a_market(seed=seed)

    found = market.search(EXAMPLE_FILTER)

    assert 40 <= len(found) <= 64
    assert len(market.supply.hosts) > len(found)
    assert all(0.18 <= offer["dph_total"] <= 0.90 for offer in found)


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_the_number_of_good_offers_stays_in_its_range_for_days(seed: int) -> None:
    market = a_market(seed=seed)

    for _ in range(24):
        market.clock.advance(3 * HOUR_S)
        assert 40 <= len(market.search(EXAMPLE_FILTER)) <= 64


def test_the_same_seed_gives_the_same_offers_whatever_was_asked_before() -> None:
    asked_often, asked_once, other = a_market(seed=3), a_market(seed=3), a_market(seed=4)
    for _ in range(10):
        asked_often.clock.advance(HOUR_S)
        asked_often.search({})
    for market in (asked_once, other):
        market.clock.advance(10 * HOUR_S)

    assert asked_often.search(EXAMPLE_FILTER) == asked_once.search(EXAMPLE_FILTER)
    assert asked_often.search(EXAMPLE_FILTER) != other.search(EXAMPLE_FILTER)


def test_prices_and_offers_move_with_market_time_unless_the_market_stands_still() -> None:
    moving, still = a_market(), a_market(moving=False)
    before = {market: {o["id"]: o["dph_base"] for o in market.search(EXAMPLE_FILTER)} for market in (moving, still)}
    for market in before:
        market.clock.advance(6 * HOUR_S)
    after = {market: {o["id"]: o["dph_base"] for o in market.search(EXAMPLE_FILTER)} for market in (moving, still)}

    assert set(after[moving]) != set(before[moving])
    assert any(after[moving][ask] != before[moving][ask] for ask in set(after[moving]) & set(before[moving]))
    assert after[still] == before[still]


def test_the_price_holds_storage_for_the_disk_that_was_asked_for() -> None:
    market = a_market()
    default, large = (market.search(EXAMPLE_FILTER | {"allocated_storage": gb})[0] for gb in (8, 720))
    by_id = {offer["id"]: offer for offer in market.search({"allocated_storage": 720, "order": [["id", "asc"]]})}

    assert default["dph_total"] == pytest.approx(default["dph_base"] + default["storage_cost"] * 8 / 720)
    assert large["dph_total"] == pytest.approx(large["dph_base"] + large["storage_cost"], abs=1e-6)
    assert all(o["dph_total"] == pytest.approx(o["dph_base"] + o["storage_cost"], abs=1e-6) for o in by_id.values())


def test_no_search_returns_more_than_sixty_four_and_paging_by_price_finds_the_rest() -> None:
    market = a_market()
    query: dict[str, Any] = {"order": [["dph_total", "asc"]], "limit": 1000}
    first = market.search(query)
    ids = {offer["id"] for offer in first}

    rest = market.search(query | {"dph_total": {"gte": first[-1]["dph_total"]}})

    assert len(first) == 64
    assert rest
    assert {offer["id"] for offer in rest} - ids


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ({"gpu_name": {"eq": "RTX_4090"}}, False),
        ({"gpu_name": {"eq": "RTX 4090"}}, True),
        ({"gpu_name": {"notin": ["RTX 4090", "RTX 5090"]}}, True),
        ({"cpu_ram": {"gt": 1e9}}, False),
        ({"cpu_ram": {"gt": "much"}}, False),
        ({"verified": {"eq": False}}, True),
        ({"id": {"gt": 0}}, False),
        ({"ask_contract_id": {"gt": 0}}, True),
        ({"reliability": {"gte": 0.97}, "reliability2": {"lte": 1}}, True),
        ({"dph_total": {"gt": 0.3, "lt": 0.3}}, False),
        ({"colour": {"eq": "red"}}, False),
    ],
)
def test_a_condition_matches_what_the_market_stores(condition: dict[str, Any], matches: bool) -> None:  # noqa: FBT001
    assert bool(a_market().search(condition)) is matches


@pytest.mark.parametrize(
    "body",
    [
        {"type": "auction"},
        {"limit": 0},
        {"allocated_storage": "250"},
        {"order": "dph_total"},
        {"order": [["dph_total", "up"]]},
        {"gpu_name": "RTX 4090"},
        {"gpu_name": {"like": "RTX"}},
        {"gpu_name": {"in": "RTX 4090"}},
    ],
)
def test_a_search_that_the_market_does_not_understand_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refusal:
        a_market().search(body)

    assert refusal.value.body["error"] == "invalid_args"


def test_hardware_facts_have_the_units_and_the_traps_of_the_real_api() -> None:
    offers = a_market().search({"gpu_name": {"eq": "RTX 4090"}})
    everything = [o for name in ("RTX 4090", "RTX 5090") for o in a_market().search({"gpu_name": {"eq": name}})]

    assert {offer["gpu_ram"] for offer in offers} == {24_564}
    assert {offer["compute_cap"] for offer in offers} == {890}
    assert all(offer["id"] == offer["ask_contract_id"] for offer in offers)
    assert any(offer["cpu_cores"] is None for offer in everything)
    assert any(offer["geolocation"].startswith(",") for offer in everything)
    assert len({offer["host_id"] for offer in everything}) < len({offer["machine_id"] for offer in everything})
