"""Whatever hosts, the model and people write is text on the page."""

import re

import pytest

from fleetagent.domain.records import AgentKey
from fleetagent.entrypoints.web.page.render import HERE as HERE_ON_DISK
from fleetagent.entrypoints.web.page.render import html
from fleetagent.entrypoints.web.page.words import ago, count, shown, span, usd
from support.door import BEGAN, MadeUpCallers
from support.made_up_past import MadeUpPast
from support.page import KEY, Premises, a_row, a_run, an_action, an_alert, stored

HERE = "/agents/ours/porep"
TAG = '<img src=x onerror="alert(1)">'
SCRIPT = "</p></script><script>alert(1)</script>"
ATTRIBUTE = "\" autofocus onfocus='alert(1)' x=\""
TEMPLATE = "{{ 7 * 191 }}{% raw %}"
WORD = "w" * 100_000
TURNED = "exe.\u202egnp\u2066\u200b"


def hostile(words: str) -> Premises:
    at = f"{BEGAN:%Y-%m-%dT%H:%M:%SZ}"
    short = words[:60]
    status = {
        "lastRun": {"id": 412, "triggers": [short], "startedAt": at, "outcome": short, "summary": words[:700]},
        "waitingActions": [
            {"id": "action-42", "kind": "launch", "what": short, "reason": words[:160], "expiresAt": at},
        ],
        "pendingWakes": [{"id": 88, "at": at, "reason": words[:160], "askedByRun": 411}],
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "X", "message": words[:700], "lastTransitionTime": at},
        ],
    }
    pause = {"until": "2026-12-02T08:00:00Z", "reason": words[:1000].replace("\n", " "), "directions": ["Up"]}
    return Premises(
        MadeUpCallers(agents={KEY: stored(status=status, spec={"pause": pause})}),
        MadeUpPast(
            known=[a_row()],
            its_alerts=[an_alert(message=words, code=short), an_alert(16, state="acknowledged", comment=words)],
            its_runs=[a_run(summary=words, triggers=(short,), outcome=short)],
            its_actions=[an_action(what=words, refusal=words, refusal_code=short), an_action(41, error=words)],
        ),
    )


@pytest.mark.parametrize("words", [TAG, SCRIPT, ATTRIBUTE, TEMPLATE], ids=["tag", "script", "attribute", "template"])
@pytest.mark.parametrize("path", ["/", HERE, f"{HERE}/now", f"{HERE}/alerts", f"{HERE}/actions"])
async def test_what_others_wrote_is_shown_as_text(words: str, path: str) -> None:
    async with hostile(words).client() as client:
        page = (await client.get(path)).raise_for_status().text

    assert "<img" not in page
    assert "<script>" not in page
    assert "' x=" not in page
    assert "onfocus='" not in page
    assert "1337" not in page


async def test_a_word_of_100_kilobytes_is_folded() -> None:
    async with hostile(WORD).client() as client:
        page = (await client.get(f"{HERE}/alerts")).raise_for_status().text

    assert "show all 100,000 characters" in page


@pytest.mark.parametrize("path", [HERE, f"{HERE}/alerts", f"{HERE}/actions"])
async def test_what_turns_the_direction_of_writing_is_shown_by_its_number(path: str) -> None:
    async with hostile(TURNED).client() as client:
        page = (await client.get(path)).raise_for_status().text

    assert "\u202e" not in page
    assert "\u2066" not in page
    assert "exe.[U+202E]gnp[U+2066][U+200B]" in page


async def test_the_address_itself_is_text_too() -> None:
    key = AgentKey("ours", "<img src=x>")
    async with Premises().client() as client:
        answer = await client.get(f"/agents/{key.namespace}/%3Cimg%20src=x%3E")
        listed = await client.get('/?namespace="><img>&after="><img>')

    assert answer.status_code == 404
    assert "<img" not in answer.text
    assert "<img" not in listed.text


async def test_an_error_page_shows_its_message_as_text() -> None:
    page = bytes(html("error.html", status_code=400, status=400, word="BadRequest", message=TAG).body).decode()

    assert "<img" not in page


def test_no_template_marks_anything_safe() -> None:
    templates = {path.name: path.read_text() for path in (HERE_ON_DISK / "templates").glob("*.html")}

    assert len(templates) > 10
    for name, text in templates.items():
        assert not re.search(r"\|\s*(safe|forceescape|tojson)\b|autoescape|Markup", text), name


def test_text_without_anything_hidden_is_printed_as_it_is() -> None:
    assert shown("Grüße, 東京 👩‍🚀\n\tok") == "Grüße, 東京 👩‍🚀\n\tok"
    assert shown(None) == "\u2013"
    assert shown("\x1b[31mred\x07") == "[U+001B][31mred[U+0007]"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (99, "99 s"),
        (100, "2 min"),
        (3600, "60 min"),
        (6000, "1 h 40 min"),
        (7200, "2 h"),
        (172_800, "2 d"),
        (266_400, "3 d 2 h"),
    ],
)
def test_a_span_has_two_parts_at_most(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_times_are_told_from_now() -> None:
    assert ago(BEGAN, BEGAN) == "now"
    assert ago(BEGAN, BEGAN.replace(minute=5)) == "5 min ago"
    assert ago(BEGAN.replace(minute=5), BEGAN) == "in 5 min"


def test_figures_have_separators_and_what_is_not_known_is_a_dash() -> None:
    assert usd("1234.5") == "1,234.50"
    assert usd(None) == "\u2013"
    assert count(120345) == "120,345"
