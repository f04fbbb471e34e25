"""The pages of runs: the list with its filters, and one run with all that belongs to it."""

import html
import re
from datetime import timedelta

import pytest

from support.lived_past import PATH, Pages, pages_of
from support.markup import rows_of, run_ids, text_of
from support.past import a_long_past
from support.stores import Process


async def test_runs_say_why_they_began_and_what_came_of_them(pages: Pages) -> None:
    shown = await pages.get("runs")

    assert run_ids(shown) == [8, 7, 6, 5, 4, 3, 2, 1]
    rows = rows_of(shown, "Runs, newest first")
    refused, acted = rows[5], rows[7]
    for word in ("Feedback", "Refused", "OfferNotSeen", "4,100 ~", "27 s"):
        assert word in refused
    for word in ("Schedule", "Acted", "Launched one RTX 5090", "9,120", "310"):
        assert word in acted


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        ("outcome=Refused", [3]),
        ("trigger=Event", [4]),
        ("outcome=Held&trigger=Schedule", [5, 2]),
        ("outcome=ContextFull", []),
    ],
)
async def test_runs_can_be_chosen_by_outcome_and_trigger(pages: Pages, asked: str, runs: list[int]) -> None:
    assert run_ids(await pages.get(f"runs?{asked}")) == runs


async def test_runs_can_be_chosen_by_time(pages: Pages) -> None:
    border = (pages.premises.now - timedelta(minutes=30)).strftime(
        "%Y-%m-%dT%H:%M"
    )  # as the field of a browser sends it

    assert run_ids(await pages.get(f"runs?since={border}")) == [8, 7, 6, 5]
    assert run_ids(await pages.get(f"runs?until={border}")) == [4, 3, 2, 1]


async def test_a_run_shows_what_was_said_against_what_the_ledger_shows(pages: Pages) -> None:
    shown = await pages.get("runs/3")

    action, change = rows_of(shown, "What the model said it did, and what the ledger shows")
    assert "launched or stopped something yes differs no" in action
    assert "something that matters is different no no" in change
    (refused,) = rows_of(shown, "Launches and stops of this run, refused ones too")
    assert "refused" in refused
    assert "OfferNotSeen : offer <img" in refused


async def test_a_run_shows_each_call_with_its_answer(pages: Pages) -> None:
    said = text_of((await pages.get("runs/1")).split('id="said-title"')[1])

    order = ["The facts", "[Run #1", "plan_capacity", '"shortfall": 90.5', "get_offers", '"offers"', "launch_instance"]
    places = [said.index(words) for words in order]
    assert places == sorted(places)
    assert "later runs see" in said
    assert "left the prompt: compacted" in said


async def test_runs_lead_to_those_beside_them(pages: Pages) -> None:
    middle, last, first = await pages.get("runs/3"), await pages.get("runs/8"), await pages.get("runs/1")

    assert f'rel="prev" href="{PATH}/runs/2"' in middle
    assert f'rel="next" href="{PATH}/runs/4"' in middle
    assert 'rel="next"' not in last
    assert 'rel="prev"' not in first


async def test_only_a_run_that_goes_on_is_followed(pages: Pages) -> None:
    assert f'hx-get="{PATH}/runs/8"' in await pages.get("runs/8")
    assert f'hx-get="{PATH}/runs/7"' not in await pages.get("runs/7")


async def test_older_runs_are_a_click_away_each_once(one: Process) -> None:
    await a_long_past(one, (await one.agent()).id, runs=120)
    found, page = list[int](), "runs?outcome=Held"

    async with pages_of(one) as pages:
        for _ in range(3):
            shown = await pages.get(page)
            found += run_ids(shown)
            older = re.findall(r'rel="next" href="[^"]*/(runs\?[^"]*)"', shown)
            page = html.unescape(older[0]) if older else ""

    assert found == list(range(120, 0, -1))
    assert not page
