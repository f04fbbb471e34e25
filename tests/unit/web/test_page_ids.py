"""What stands once in a page: by an id the parts of a page find each other, and a label its field."""

import re

import pytest

from support.made_up_past import MadeUpPast
from support.page import KEY, Premises, a_row, a_run, an_action, an_alert

VIEWS = ("", "/runs", "/runs/412", "/conversation", "/sessions", "/wakes", "/fleet", "/spend", "/alerts", "/actions")


def a_full_past() -> MadeUpPast:
    past = MadeUpPast(known=[a_row(open_alerts=2)])
    past.its_runs, past.its_actions = [a_run(412)], [an_action(42)]
    past.its_alerts = [an_alert(17), an_alert(18)]
    return past


@pytest.mark.parametrize("view", VIEWS)
async def test_no_id_stands_twice_in_a_page(view: str) -> None:
    async with Premises(past=a_full_past()).client() as browser:
        page = await browser.get(f"/agents/{KEY.namespace}/{KEY.name}{view}")
    ids = re.findall(r'\sid="([^"]+)"', page.text)

    assert page.status_code == 200
    assert sorted(ids) == sorted(set(ids))
