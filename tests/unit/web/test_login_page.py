"""The page that asks for a token."""

import pytest

from support.page import Premises


@pytest.mark.parametrize(
    ("site", "asks"), [("none", False), ("same-origin", False), ("cross-site", True), ("same-site", True), (None, True)]
)
async def test_a_token_that_a_link_brings_is_used_at_once_only_where_its_owner_called_it_up(
    site: str | None, *, asks: bool
) -> None:
    async with Premises().client(**({} if site is None else {"sec-fetch-site": site})) as browser:
        page = (await browser.get("/login")).text

    assert ("data-ask" in page) is asks
