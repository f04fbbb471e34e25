"""What open pages share."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.web.page.recent import Recent
from fleetagent.errors import TryLater
from support.door import ADMIN, BEGAN, OURS_ALONE, VIEWER, MadeUpCallers
from support.made_up_past import MadeUpPast
from support.page import KEY, Premises, a_row, stored

MOMENT = timedelta(seconds=1)
HERE = "/agents/ours/porep"


@dataclass
class Source:
    """Says how often it was read, once it may."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    times: int = 0

    async def read(self) -> int:
        self.times += 1
        said = self.times
        await self.open.wait()
        return said


@pytest.fixture
def source() -> Source:
    made = Source()
    made.open.set()
    return made


async def test_fifty_who_come_together_read_once(source: Source) -> None:
    source.open.clear()
    recent = Recent()
    together = asyncio.gather(*(recent.of("it", BEGAN, MOMENT, source.read) for _ in range(50)))
    await asyncio.sleep(0)
    source.open.set()

    assert set(await together) == {1}


async def test_after_a_moment_it_is_read_again(source: Source) -> None:
    recent = Recent()
    said = [await recent.of("it", BEGAN + timedelta(seconds=s), MOMENT, source.read) for s in (0, 0.9, 1, 1.5, 3)]

    assert said == [1, 1, 2, 2, 3]


async def test_news_make_it_old_at_once(source: Source) -> None:
    recent = Recent()
    await recent.of("it", BEGAN, MOMENT, source.read)
    recent.there_is_news()

    assert await recent.of("it", BEGAN, MOMENT, source.read) == 2


async def test_what_was_read_while_news_came_is_shown_to_nobody_else(source: Source) -> None:
    source.open.clear()
    recent = Recent()
    first = asyncio.ensure_future(recent.of("it", BEGAN, MOMENT, source.read))
    await asyncio.sleep(0)
    recent.there_is_news()
    source.open.set()

    assert await first == 1
    assert await recent.of("it", BEGAN, MOMENT, source.read) == 2


async def test_a_failure_is_kept_for_nobody(source: Source) -> None:
    async def fails() -> int:
        raise TryLater("the database does not answer")

    recent = Recent()
    with pytest.raises(TryLater):
        await recent.of("it", BEGAN, MOMENT, fails)

    assert await recent.of("it", BEGAN, MOMENT, source.read) == 1


async def test_who_goes_away_while_it_is_read_leaves_the_reading_to_the_next(source: Source) -> None:
    source.open.clear()
    recent = Recent()
    first = asyncio.ensure_future(recent.of("it", BEGAN, MOMENT, source.read))
    second = asyncio.ensure_future(recent.of("it", BEGAN, MOMENT, source.read))
    await asyncio.sleep(0)
    first.cancel()
    source.open.set()

    assert await second == 2


async def test_what_is_old_is_let_go(source: Source) -> None:
    recent = Recent()
    for second in range(100):
        await recent.of(second, BEGAN + timedelta(seconds=second), MOMENT, source.read)

    assert len(recent._kept) <= 2


async def test_pages_that_are_told_together_read_the_resource_once_for_all_who_may() -> None:
    premises = Premises()
    for token in (ADMIN, VIEWER, OURS_ALONE):
        async with premises.client(token, **{"hx-request": "true"}) as client:
            assert 'value="3.4213"' in (await client.get(f"{HERE}/now")).raise_for_status().text

    assert premises.past.asked["agent"] == 1


async def test_two_agents_share_nothing() -> None:
    other = AgentKey("ours", "another")
    agents = {KEY: stored(), other: stored(other, status={"fleet": {"usdPerHour": "1.2345"}})}
    premises = Premises(MadeUpCallers(agents=agents), MadeUpPast(known=[a_row(), a_row(other)]))
    async with premises.client(**{"hx-request": "true"}) as client:
        ours = (await client.get(f"{HERE}/now")).text
        others = (await client.get("/agents/ours/another/now")).text

    assert 'value="3.4213"' in ours
    assert 'value="1.2345"' in others


async def test_what_is_shared_is_not_shown_to_who_may_not_read_it_and_gives_no_buttons() -> None:
    theirs = AgentKey("theirs", "snap")
    premises = Premises(
        MadeUpCallers(agents={KEY: stored(), theirs: stored(theirs)}), MadeUpPast(known=[a_row(), a_row(theirs)])
    )
    answers = []
    for token in (ADMIN, VIEWER, OURS_ALONE):
        async with premises.client(token, **{"hx-request": "true"}) as client:
            answers.append(await client.get("/agents/theirs/snap/now"))

    admin, viewer, other = answers
    assert "/do/request" in admin.text
    assert "/do/" not in viewer.text
    assert other.status_code == 403
    assert "3.4213" not in other.text


async def test_a_page_that_is_opened_is_read_anew() -> None:
    premises = Premises()
    async with premises.client() as client:
        for _ in range(2):
            (await client.get(HERE)).raise_for_status()

    assert premises.past.asked["agent"] == 2
