"""The pages of machines, hosts, spend and wakes."""

import re

from support.lived_past import PATH, Pages
from support.markup import rows_of, text_of


async def test_machines_that_have_ended_are_one_click_away(pages: Pages) -> None:
    living, all_of_them = await pages.get("fleet"), await pages.get("fleet?ended=1")

    assert f'href="{PATH}/fleet?ended=1"' in living
    assert re.findall(r'<tr role="row" id="m(\d+)"', living) == ["906", "905", "904", "903", "902", "901", "1"]
    assert re.findall(r'<tr role="row" id="m(\d+)"', all_of_them)[:2] == ["908", "907"]


async def test_a_machine_shows_its_way_its_price_and_its_rates(pages: Pages) -> None:
    shown = await pages.get("fleet")

    proving = rows_of(shown, "Machines, newest first")[1]
    for words in ("m905", "2x RTX 4090", "330145", "proving for 9 min", "0.757", "118.4 p/h", "120.0 p/h", "least 95"):
        assert words in proving
    assert (
        'aria-label="requested 81 min, loading 63 min, registered 45 min, benchmarking 27 min, proving 9 min"' in shown
    )


async def test_hosts_that_are_left_out_come_first(pages: Pages) -> None:
    rows = rows_of(await pages.get("fleet"), "Hosts, those that are left out first")

    assert "left out" in rows[0]
    assert "in 5 h" in rows[0] or "in 4 h" in rows[0]
    assert all("may be rented" in row for row in rows[1:])


async def test_the_spend_by_day_is_what_was_booked(pages: Pages) -> None:
    shown = await pages.get("spend?days=30")
    booked = await pages.process.rows(
        "SELECT day, sum(usd) FILTER (WHERE kind = 'fleet') AS fleet, sum(tokens) AS tokens FROM spend"
        " GROUP BY day ORDER BY day DESC"
    )

    rows = rows_of(shown, "Spend by UTC day, newest first")
    assert len(rows) == len(booked) == 10
    for row, day in zip(rows, booked, strict=True):
        assert f"{day['day']}" in row
        assert f"{day['fleet']:.2f}" in row
        assert f"{day['tokens']:,}" in row
    assert ["over" in row for row in rows] == [False] * 6 + [True] * 4
    assert f"{sum(day['fleet'] for day in booked):,.2f}" in text_of(shown.split("<tfoot")[1])
    newest = rows_of(await pages.get("spend?days=7"), "Spend by UTC day, newest first")
    assert newest == rows[: len(newest)]
    assert len(newest) in {6, 7}, "the day may have ended since it was lived"


async def test_wakes_are_shown_with_the_runs_that_asked(pages: Pages) -> None:
    (pending,) = rows_of(await pages.get("wakes"), "Runs that the agent asked for, soonest first")

    assert "run 4" in pending
    assert "in " in pending
