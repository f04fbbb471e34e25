"""/events: what tells open pages of changes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.listen import listening
from fleetagent.entrypoints.web.page import live
from fleetagent.entrypoints.web.page.live import CHANGED, STILL_HERE, Live
from fleetagent.entrypoints.web.visitor import Visitor
from fleetagent.errors import TooOften
from support.door import ADMIN, BEGAN, OURS_ALONE, MadeUpCallers
from support.made_up_past import MadeUpPast
from support.page import KEY, Premises, a_row

OTHER = AgentKey("theirs", "snap")


@pytest.fixture
def past() -> MadeUpPast:
    return MadeUpPast(known=[a_row()])


def who(token: str = ADMIN, callers: MadeUpCallers | None = None) -> Visitor:
    return Visitor(callers or MadeUpCallers(), token)


async def begun(stream: AsyncIterator[str]) -> AsyncIterator[str]:
    """A stream that is listened to: its first word has come."""
    assert (await anext(stream)).startswith("retry:")
    return stream


async def told(stream: AsyncIterator[str], within_seconds: float = 5) -> str:
    """What comes next."""
    return await asyncio.wait_for(anext(stream), within_seconds)


async def until_asked(past: MadeUpPast, times: int = 1) -> None:
    """Until the database was asked so many times more."""
    wanted = past.asked["versions"] + times
    async with asyncio.timeout(5):
        while past.asked["versions"] < wanted:  # noqa: ASYNC110  # the database knows no event
            await asyncio.sleep(0.005)


async def test_a_change_is_told_to_all_who_watch_that_agent_and_to_nobody_else(past: MadeUpPast) -> None:
    async with Live(past, every_seconds=0.01) as page:
        ours = [await begun(page.stream(who(), frozenset({KEY}))) for _ in range(3)]
        other = await begun(page.stream(who(), frozenset({OTHER})))
        assert [await told(stream) for stream in (*ours, other)] == [CHANGED] * 4
        waiting = [asyncio.ensure_future(told(stream)) for stream in (*ours, other)]
        await until_asked(past, 2)
        past.version[KEY] = "1"
        await asyncio.wait(waiting[:3], timeout=5)

        assert [each.result() for each in waiting[:3]] == [CHANGED] * 3
        assert not waiting[3].done()
        waiting[3].cancel()


async def test_who_comes_for_news_is_not_shown_what_was_read_before(past: MadeUpPast) -> None:
    async def read() -> str:
        return past.version.get(KEY, "0")

    async with Live(past, every_seconds=0.01) as page:
        stream = await begun(page.stream(who(), frozenset({KEY})))
        assert await told(stream) == CHANGED
        assert await page.recent.of("it", BEGAN, timedelta(hours=1), read) == "0"
        past.version[KEY] = "1"

        assert await told(stream) == CHANGED
        assert await page.recent.of("it", BEGAN, timedelta(hours=1), read) == "1"


async def test_who_has_just_come_is_called_once_for_what_changed_since_the_page_was_drawn(past: MadeUpPast) -> None:
    async with Live(past, every_seconds=0.01) as page:
        first = await begun(page.stream(who(), frozenset({KEY})))
        assert await told(first) == CHANGED
        second = await begun(page.stream(who(), frozenset({KEY})))
        again = asyncio.ensure_future(told(first))

        assert await told(second) == CHANGED
        await until_asked(past, 3)
        assert not again.done()
        again.cancel()


async def test_fifty_watchers_cost_one_question_to_the_database_at_a_time(past: MadeUpPast) -> None:
    async with Live(past, every_seconds=3600) as page:
        streams = [
            await begun(page.stream(who(f"token-{n}"), frozenset({AgentKey("ours", f"agent-{n}")}))) for n in range(50)
        ]
        waiting = [asyncio.ensure_future(told(stream)) for stream in streams]
        await until_asked(past)
        for _ in range(10):
            await asyncio.sleep(0)

        assert past.asked["versions"] == 1
        for each in waiting:
            each.cancel()


async def test_nobody_is_asked_anything_while_nobody_watches(past: MadeUpPast) -> None:
    async with Live(past, every_seconds=0.001) as page:
        stream = await begun(page.stream(who(), frozenset({KEY})))
        waiting = asyncio.ensure_future(told(stream))
        await until_asked(past)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await stream.aclose()  # type: ignore[attr-defined]
        async with asyncio.timeout(5):
            while page._looking is not None and not page._looking.done():  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        asked = past.asked["versions"]
        await asyncio.sleep(0.05)

        assert past.asked["versions"] == asked


async def test_a_watcher_whose_token_ends_is_told_and_hears_nothing_more(past: MadeUpPast) -> None:
    callers = MadeUpCallers()
    async with Live(past, every_seconds=0.01, rights_seconds=0.05) as page:
        stream = await begun(page.stream(who(callers=callers), frozenset({KEY})))
        del callers.names[ADMIN]
        past.version[KEY] = "1"
        last = [word async for word in stream][-1]

        assert last.startswith("event: over\ndata: ")
        assert last.endswith("\n\n")


async def test_a_watcher_who_loses_the_right_hears_nothing_more(past: MadeUpPast) -> None:
    async with Live(past, every_seconds=0.01, rights_seconds=0.05) as page:
        stream = await begun(page.stream(who(OURS_ALONE), frozenset({OTHER})))
        last = [word async for word in stream][-1]

        assert last.startswith("event: over\ndata: you may not get fleetagents in namespace 'theirs'")


async def test_an_api_server_that_is_away_ends_no_stream(past: MadeUpPast) -> None:
    callers = MadeUpCallers(away=True)
    async with Live(past, every_seconds=0.01, rights_seconds=0.02) as page:
        stream = await begun(page.stream(who(callers=callers), frozenset({KEY})))

        assert await told(stream) == CHANGED
        assert await told(stream) == STILL_HERE
        assert await told(stream) == STILL_HERE


async def test_a_database_that_is_away_ends_no_stream_and_its_news_come_later(past: MadeUpPast) -> None:
    async with Live(past, every_seconds=0.01) as page:
        stream = await begun(page.stream(who(), frozenset({KEY})))
        assert await told(stream) == CHANGED
        waiting = asyncio.ensure_future(told(stream))
        past.away = True
        await until_asked(past, 3)
        past.away, past.version[KEY] = False, "1"

        assert await waiting == CHANGED


async def test_all_streams_end_when_the_page_is_served_no_more(past: MadeUpPast) -> None:
    async with Live(past, every_seconds=3600) as page:
        streams = [await begun(page.stream(who(), frozenset({KEY}))) for _ in range(3)]
        rest = [asyncio.ensure_future(_all(stream)) for stream in streams]
        await until_asked(past)

    async with asyncio.timeout(5):
        words = await asyncio.gather(*rest)
    assert all(said.count(CHANGED) <= 1 for said in words)


async def test_no_visitor_and_not_all_together_may_hold_more_streams_than_there_is_room_for(
    past: MadeUpPast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_OF_ONE", 2)
    monkeypatch.setattr(live, "MOST_WATCHERS", 3)
    async with Live(past, every_seconds=3600) as page:
        keys = frozenset({KEY})
        held = [await begun(page.stream(who("one"), keys)) for _ in range(2)]
        with pytest.raises(TooOften):
            page.answer(who("one"), keys)
        page.answer(who("another"), keys)
        held.append(await begun(page.stream(who("another"), keys)))
        with pytest.raises(TooOften):
            page.answer(who("third"), keys)
        await held.pop().aclose()  # type: ignore[attr-defined]
        page.answer(who("third"), keys)
        await held.pop().aclose()  # type: ignore[attr-defined]
        page.answer(who("one"), keys)
        for stream in held:
            await stream.aclose()  # type: ignore[attr-defined]


async def test_a_browser_that_goes_away_is_forgotten_and_one_that_stays_does_not_delay_the_end(
    past: MadeUpPast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetagent.entrypoints.listen.LAST_ANSWERS_SECONDS", 30)
    premises, headers = Premises(past=past), {"authorization": f"Bearer {ADMIN}"}
    async with contextlib.AsyncExitStack() as browsers, contextlib.AsyncExitStack() as server:
        client = await browsers.enter_async_context(httpx.AsyncClient(headers=headers, trust_env=False))
        port = await server.enter_async_context(listening(premises.app, "127.0.0.1", 0, what="FLEETAGENT_WEB_LISTEN"))
        await server.enter_async_context(premises.live)
        events = f"http://127.0.0.1:{port}/agents/ours/porep/events"
        async with client.stream("GET", events) as goes:
            assert goes.headers["content-type"].startswith("text/event-stream")
            assert await anext(goes.aiter_text()) == live.BEGUN
            assert len(premises.live._watchers) == 1
        async with asyncio.timeout(5):
            while premises.live._watchers:  # noqa: ASYNC110  # the server learns of it by itself
                await asyncio.sleep(0.01)
        stays = await browsers.enter_async_context(client.stream("GET", events))
        assert await anext(stays.aiter_text()) == live.BEGUN
        began = asyncio.get_running_loop().time()
        await server.aclose()

        assert asyncio.get_running_loop().time() - began < 15


async def _all(stream: AsyncIterator[str]) -> list[str]:
    return [word async for word in stream]
