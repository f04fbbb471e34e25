"""Rows that lie."""

import json
import math

import pytest

from fleetagent.sim.marketplace.answers import LooseJSONResponse
from fleetagent.sim.marketplace.odd import HOSTILE, IDENTITY, hostile, odd_numbers
from fleetagent.sim.marketplace.search import matches
from support.simulated import a_market, a_running_machine, row


def test_hostile_rows_talk_to_the_model_in_each_of_its_tongues() -> None:
    offers = a_market().search({})
    rows = hostile(offers)

    assert {said["cpu_name"] for said in rows} == set(HOSTILE)
    assert all(said["id"] == offer["id"] for said, offer in zip(rows, offers, strict=True))
    assert any(said["gpu_name"] != offer["gpu_name"] for said, offer in zip(rows, offers, strict=True))
    assert any(said["gpu_name"] == offer["gpu_name"] for said, offer in zip(rows, offers, strict=True))


def test_odd_numbers_stand_in_every_number_but_the_ids_and_go_over_the_wire() -> None:
    market = a_market()
    machine = row(market, a_running_machine(market))
    (odd,) = odd_numbers([machine])
    sent = json.loads(bytes(LooseJSONResponse(odd).body))

    assert {name: odd[name] for name in IDENTITY & odd.keys()} == {
        name: machine[name] for name in IDENTITY & odd.keys()
    }
    assert odd["label"] == machine["label"]
    numbers = [sent[name] for name, value in machine.items() if isinstance(value, float) and name not in IDENTITY]
    assert None in numbers
    assert any(isinstance(number, str) for number in numbers)
    assert any(isinstance(number, float) and math.isnan(number) for number in numbers)


@pytest.mark.parametrize(
    ("condition", "matching"),
    [
        ({"cpu_ram": {"gte": "240000"}}, True),
        ({"cpu_ram": {"gte": "much"}}, False),
        ({"num_gpus": {"eq": "2"}}, False),
        ({"num_gpus": {"in": ["1", "2"]}}, True),
        ({"rentable": {"eq": "true"}}, True),
        ({"rentable": {"eq": "perhaps"}}, False),
        ({"gpu_name": {"eq": "1"}}, False),
    ],
)
def test_a_filter_takes_numbers_as_text_too(condition: dict[str, dict[str, object]], matching: bool) -> None:  # noqa: FBT001
    offer = {"cpu_ram": 257_000, "num_gpus": 1, "rentable": True, "gpu_name": "RTX 4090"}

    assert matches(offer, condition) is matching
