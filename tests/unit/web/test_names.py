"""Names that no FleetAgent can have are asked of nobody: one of them would fail what is asked for all who watch."""

import pytest

from support.page import Premises

BELOW = ("", "/now", "/events", "/samples.json", "/runs", "/runs/1", "/conversation", "/sessions", "/wakes", "/fleet")
MORE = ("/spend", "/alerts", "/actions")


@pytest.mark.parametrize("name", ["na%00me", "PoRep", "a..b", "-", "n%C3%A4me", "a%0A", "x" * 254])
async def test_an_address_with_what_is_no_name_leads_nowhere(name: str) -> None:
    premises = Premises()
    async with premises.client() as browser:
        read = [await browser.get(f"/agents/ours/{name}{below}") for below in (*BELOW, *MORE)]
        said = await browser.post(f"/agents/ours/{name}/do/request")

    assert {answer.status_code for answer in (*read, said)} == {404}
    assert not premises.past.asked
    assert premises.callers.patches == []
