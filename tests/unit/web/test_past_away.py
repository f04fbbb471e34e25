"""The pages of the past while the database does not answer."""

import pytest

from support.page import KEY, Premises


@pytest.mark.parametrize("page", ["runs", "runs/1", "conversation", "fleet", "spend", "sessions", "wakes"])
async def test_a_database_that_is_away_is_said_in_words(page: str) -> None:
    premises = Premises()
    premises.past.away = True

    async with premises.client() as browser:
        answer = await browser.get(f"/agents/{KEY.namespace}/{KEY.name}/{page}")

    assert answer.status_code == 503
    assert "the database does not answer" in answer.text
    assert answer.headers["retry-after"]
