"""What all pages of the past have in common: who may see them, what strangers may write, what cannot be asked."""

import html

import pytest

from support.door import OURS_ALONE, VIEWER
from support.lived_fleet import HOSTILE
from support.lived_past import PATH, Pages, pages_of
from support.markup import Markup, text_of
from support.stores import KEY, Process

ALL = [
    "runs",
    "runs/1",
    "runs/3",
    "runs/8",
    "conversation",
    "conversation?view=everything",
    "conversation?view=tokens&seen=1",
    "fleet",
    "fleet?ended=1",
    "spend",
    "sessions",
    "wakes?past=1",
]
HOSTILE_ON = [
    "runs",
    "runs/3",
    "conversation",
    "conversation?view=everything",
    "fleet",
    "fleet?ended=1",
    "wakes?past=1",
]


@pytest.mark.parametrize("page", ALL)
async def test_no_word_of_a_stranger_becomes_markup(pages: Pages, page: str) -> None:
    shown = await pages.get(page)

    assert "<img" not in shown
    assert "<script>" not in shown
    assert "\u202e" not in shown
    if page in HOSTILE_ON:
        assert HOSTILE.replace("\u202e", "[U+202E]") in html.unescape(shown)


@pytest.mark.parametrize("page", ALL)
async def test_no_page_has_a_style_or_a_script_of_its_own(pages: Pages, page: str) -> None:
    shown = await pages.get(page)

    seen = Markup()
    seen.feed(shown)
    assert not {name for name in seen.attributes if name == "style" or name.startswith(("on", "hx-on"))}
    assert "style" not in seen.tags
    assert seen.scripts_without_source == 0
    assert all(link.startswith(("/", "#")) for link in seen.links), seen.links


@pytest.mark.parametrize("page", ALL)
async def test_who_may_not_read_the_namespace_sees_nothing(pages: Pages, page: str) -> None:
    async with pages.premises.client(OURS_ALONE) as neighbour:
        answer = await neighbour.get(f"{PATH}/{page}")

    assert answer.status_code == 403
    assert "RTX" not in answer.text


async def test_who_may_only_read_sees_all_of_it(pages: Pages) -> None:
    async with pages.premises.client(VIEWER) as viewer:
        assert [(await viewer.get(f"{PATH}/{page}")).status_code for page in ALL] == [200] * len(ALL)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("runs?outcome=Nonsense", "outcome: must be one of"),
        ("runs?since=yesterday", "since: must be a time such as"),
        ("runs?until=9999-12-31T23:59", "until: must be a time between"),
        ("runs?after=bm9uc2Vuc2U", "after"),
        ("conversation?session=one", "session: must be a whole number"),
        ("conversation?view=nothing", "view: must be one of"),
        ("spend?days=1000000", "days: must be one of"),
    ],
)
async def test_what_cannot_be_asked_is_refused_with_the_remedy(pages: Pages, asked: str, said: str) -> None:
    assert said in text_of(await pages.get(asked, status=400))


@pytest.mark.parametrize("asked", ["runs/99", f"runs/{10**30}", "conversation?session=99"])
async def test_what_is_not_there_is_said(pages: Pages, asked: str) -> None:
    assert "there is no" in text_of(await pages.get(asked, status=404))


async def test_the_past_stays_readable_when_the_resource_is_gone(pages: Pages) -> None:
    del pages.premises.callers.agents[KEY]

    for page in ALL:
        await pages.get(page)
    assert "cannot be read now" in await pages.get("conversation")


@pytest.mark.parametrize("page", ["runs", "conversation", "fleet", "spend", "sessions", "wakes", "wakes?past=1"])
async def test_an_agent_without_a_past_says_what_comes_next(one: Process, page: str) -> None:
    async with pages_of(one) as pages:
        shown = await pages.get(page)

    assert 'class="empty"' in shown or "Session" in shown
