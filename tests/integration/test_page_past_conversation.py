"""The page of the conversation: the prompt, what was left out of it, sessions that are over."""

import html
import re

from support.lived_past import PATH, Life, Pages, a_life, facts, pages_of, reply
from support.markup import text_of
from support.stores import KEY, Process


async def test_the_prompt_shows_the_cut_and_what_was_left_out(pages: Pages) -> None:
    shown = await pages.get("conversation")
    said = text_of(shown.split('id="prompt"')[1])

    order = [
        "System prompt",
        "Summary of earlier runs",
        "Open matters",
        "Summarised by the model",
        "run 3",
        "run 8",
    ]
    places = [said.index(words) for words in order]
    assert places == sorted(places)
    assert "28,100 → 9,300 tokens" in said
    assert "9 messages before this are not in the prompt" in said  # run 1 was summarised, run 2 was quiet
    assert "of runs before run 4 , observations and results are sent as" in said
    assert "The facts user [left out] what is left out 28 characters" in said
    assert "Demand: active=True" not in said
    link = html.unescape(re.findall(r'href="([^"]*view=everything&amp;until=[^"]*)"', shown)[0])
    left = text_of((await pages.browser.get(link)).text)
    assert "left the prompt: quiet" in left
    assert "left the prompt: compacted" in left
    assert "Demand: active=True" in left
    assert "[Run #3]" not in left


async def test_the_tokens_are_the_backends_beside_our_estimate_and_the_budget(pages: Pages) -> None:
    shown = await pages.get("conversation")

    for name, value in {"context-tokens": 8123, "estimated-tokens": 8150, "next-prompt-tokens": 8300}.items():
        assert f'id="{name}" value="{value}"' in shown
    assert "of 30,000 tokens" in text_of(shown)


async def test_an_open_conversation_is_told_that_it_is_an_older_one(pages: Pages) -> None:
    assert "has run since" in await pages.get("conversation?view=tokens&seen=7")
    assert "has run since" not in await pages.get("conversation?view=tokens&seen=8")


async def test_the_export_of_the_session_is_a_click_away(pages: Pages) -> None:
    link = f"/api/v1/namespaces/{KEY.namespace}/agents/{KEY.name}/sessions/1/export"

    assert f'href="{link}" download' in await pages.get("conversation")
    assert f'href="{link}" download' in await pages.get("sessions")


async def test_of_a_very_long_prompt_the_newest_runs_are_shown_and_all_is_a_click_away(one: Process) -> None:
    life = Life(one)
    for run in range(1, 5):
        await life.run(*[each for n in range(50) for each in (facts(f"facts {run}.{n}"), reply(f"answer {run}.{n}"))])

    async with pages_of(one) as pages:
        newest, everything = await pages.get("conversation"), await pages.get("conversation?session=1&all=1")

    assert "200 earlier messages of the prompt are not shown here" in text_of(newest)
    assert f'href="{PATH}/conversation?session=1&amp;all=1"' in newest
    assert ("answer 2.49" in newest, "answer 3.0" in newest, "answer 4.49" in newest) == (False, True, True)
    assert "not in the prompt" not in text_of(newest)
    assert "answer 1.0" in everything
    assert "not shown here" not in everything


async def test_a_session_that_was_reset_is_still_there(one: Process) -> None:
    await a_life(one)
    await one.agents.start_session(await one.lease(), {})

    async with pages_of(one) as pages:
        assert "No run is in the prompt" in await pages.get("conversation")
        archived = await pages.get("conversation?session=1")

    assert "was reset" in archived
    assert "left the prompt: reset" in text_of(archived)
    assert '<option value="1" selected>' in archived
